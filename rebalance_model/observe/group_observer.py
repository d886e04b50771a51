"""The observer of one consumer group: it turns events, timers and changes of sources into conclusions.

Total and deterministic: every valid event of the group, in any order, has a result, and the same log has the same
result. Events come in time order, and there is one clock (`engine.timeline`).

One collector is followed at a time. Answers of another one are skipped until the followed one is silent, or has
reported nothing of the group for `FOLLOW_INTERVALS` poll intervals. So two redundant collectors do no harm. All hooks
are followed, each for its broker, beside the collector; see `polls.connections` for how both are combined.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Never, cast

from rebalance_model.observe import snapshots
from rebalance_model.observe.changes import (
    BrokerRestarted,
    ClusterChanged,
    EventsLost,
    HookRestarted,
    SourceBack,
    SourceChange,
    SourceForgotten,
    SourceSilent,
)
from rebalance_model.observe.effects import AnyEffect, stable_id
from rebalance_model.observe.events import (
    Answer,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeTimeSpan,
    Event,
    GetConsumerListByGroup,
    GroupEvent,
    HookEvent,
    LockBatchMq,
    PollEvent,
    ProxyConnection,
    PullMessage,
    QueryConsumerOffset,
    TopicRoute,
    TopicStats,
    UpdateConsumerOffset,
    instance_of,
    source_of,
)
from rebalance_model.observe.group import ended_queues, proxied, rebalances
from rebalance_model.observe.group.deleted_group import is_unreported, unreported_at
from rebalance_model.observe.hooks import hook, pops
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.polls.answers import fold_running_info
from rebalance_model.observe.polls.connections import fold_connections, fold_proxy
from rebalance_model.observe.polls.offsets import fold_stats, fold_topic_stats
from rebalance_model.observe.polls.rounds import await_members, stop_waiting
from rebalance_model.observe.polls.routes import fold_route
from rebalance_model.observe.quiet import is_quiet
from rebalance_model.observe.rules import broker_name_shared
from rebalance_model.observe.rules.broker_unreachable import GONE
from rebalance_model.observe.rules.judgement import end_all, end_broker, judge, judge_all
from rebalance_model.observe.rules.state_lost import CODE
from rebalance_model.observe.state import (
    ClusterState,
    GroupState,
    Loss,
    LostPart,
    LostState,
    Remains,
    Rounds,
    Sequence,
    note_sequence,
)
from rebalance_model.observe.step import GroupStep, Moment

_SAY_THEMSELVES = hook.OF_POPS | {
    PullMessage, UpdateConsumerOffset, QueryConsumerOffset, LockBatchMq, GetConsumerListByGroup,
}  # fmt: skip
"""The most frequent calls: most show nothing new of the group, and what folds them says so if one does."""
_ANSWERS: Mapping[type[PollEvent], Callable[[GroupStep, Never], None]] = {
    ConsumerRunningInfo: fold_running_info,
    ConsumeStats: fold_stats,
    ConsumerConnection: fold_connections,
    ProxyConnection: fold_proxy,
    TopicRoute: fold_route,
    TopicStats: fold_topic_stats,
    ConsumeTimeSpan: lambda *_: None,  # a quantity: no rule uses it
}
"""The function that folds each kind of answer."""
_CALLERS_OWN = frozenset(
    {"unreadable request", "unreadable field", "event too large", "too many groups in a heartbeat", "lite topic"}
)
"""The reasons of a hook's losses that lie in a call itself (Losses.java); no other call can have been lost by them."""
GROUP_ENDED = "nothing reports the group any more"
"""The reason with which incidents of a group end that is deleted, or no longer polled."""
FOLLOW_INTERVALS = 1.5
"""The number of poll intervals without a report of the group after which another collector is followed: one that has
left the group to another collector has missed a round then."""


class GroupObserver:
    """One consumer group: events, timers and changes of its sources go in, rows come out."""

    __slots__ = ("policy", "state")

    def __init__(self, state: GroupState, policy: Policy) -> None:
        """Continue from a state, which changes in place; the policy has the group's own thresholds."""
        self.state = state
        self.policy = policy

    def handle(self, event: PollEvent | HookEvent, moment: Moment) -> list[AnyEffect]:
        """Process an event; a repeated one, or one of a collector that is not followed, changes nothing."""
        state = self.state
        news, followed = _news(state, event, event.seq), state.collector
        if news is None or (isinstance(event, Answer) and not _is_followed(state, event, moment.now, self.policy)):
            return []
        step = GroupStep(state, self.policy, moment)
        state.last_seen = step.now
        if state.next_snapshot == 0:
            state.next_snapshot = _next_snapshot(state, step.now, self.policy)
        if isinstance(event, Answer):
            if news != "NEXT":
                state.covered_since = step.now
            if news == "GAP":
                state.lost_at = step.now
                step.changed("SOURCES")
            if not state.members or news != "NEXT" or state.collector != followed:
                step.changed("REPORT")
            if not broker_name_shared.is_foreign(moment.cluster.brokers.get(event.broker), moment.now):
                _ANSWERS[type(event)](step, cast("Never", event))  # each takes its own kind
        else:
            if news != "NEXT" or type(event) not in _SAY_THEMSELVES:
                step.changed("REPORT")
            if news == "RESTART" and state.silent.pop(source_of(event), None) is not None:
                _judge_source(step, source_of(event))  # it is back, before its first tick
            hook.fold_hook(step, event, news)
        return _concluded(step)

    def skip(self, event: GroupEvent) -> list[AnyEffect]:
        """Skip an event that came too late; its source's next event comes after a gap."""
        name, start = _named(event.source, event.source_id)
        last = self.state.sequences.get(name)
        if last is None or not last.covers(start, event.seq):
            is_next = last is None or (start, event.seq) in {(last.start, last.seq + 1), (start, 1)}
            is_complete = is_next and (last is None or not last.skipped or last.is_complete)
            sequence = Sequence(start, event.seq, skipped=True, is_complete=is_complete)
            note_sequence(self.state.sequences, name, sequence)
        return []

    def note_lost(self, part: LostPart, reason: str, now: int) -> None:
        """Note that a part of the group's state was lost: its next check opens an incident (`rules.state_lost`).

        The check is due at once, and is a timer as any other, so the rows do not depend on where a batch ends.
        """
        state = self.state
        lost = state.lost or LostState(part, now, now, 0, "")
        state.lost = LostState(part, lost.since, now, lost.count + 1, reason, lost.open_incidents)
        state.next_check = now + 1
        if part == "SHARD":  # the state may be of an earlier batch, and its later rows are written
            state.rows = max(state.rows, now)
        if state.next_snapshot == 0:
            state.next_snapshot = _next_snapshot(state, now, self.policy)

    def on_source(self, change: SourceChange, moment: Moment) -> list[AnyEffect]:
        """Process what has become of a source, or of the cluster."""
        step = GroupStep(self.state, self.policy, moment)
        step.changed("REPORT")
        is_concerned = _CHANGES[type(change)](step, cast("Never", change))
        return _concluded(step) if is_concerned else []

    def skip_idle_time(self, now: int, idle_ms: int) -> list[AnyEffect]:
        """Account for a period without ticks of any source: ``idle_ms`` milliseconds until ``now``.

        A broker that is stopped, or whose machine is, receives no heartbeats for that long, and does not count them as
        missing afterwards. So the ages of expected events restart, and the pending time of conditions is reduced by it.
        """
        state = self.state
        _cover_from(state, now, lambda _: True)
        pops.skip_idle_time(state, now)
        for pending in state.pending.values():
            if pending.frozen_at is None:
                pending.since += idle_ms
        if state.next_check:
            state.next_check = max(state.next_check, now)
        return []

    def advance(self, due: int, moment: Moment) -> list[AnyEffect]:
        """Run the timers that are due; return the resulting rows."""
        state, step = self.state, GroupStep(self.state, self.policy, moment)
        step.changed("REPORT")
        if 0 < state.next_check <= due:
            state.next_check = 0
            for broker, view in state.views.items():
                if (live := step.live_hook(view)) is not None:  # absence proves nothing while a hook is silent
                    hook.scan(step, broker, view, live)
            pops.scan(step)
            stop_waiting(step)
            judge_all(step)
        rebalances.close_overdue(step)
        if is_unreported(state, moment.cluster, step.now, self.policy):
            end_all(step, GROUP_ENDED)
        _await_next_report(step)
        if state.next_snapshot <= due:
            state.next_snapshot = _next_snapshot(state, step.now, self.policy)
            ended_queues.forget(step)
            proxied.forget_unreported(step)
            if _is_long_unreported(state, step.now, self.policy) and not state.silent:
                end_all(step, GROUP_ENDED)
            snapshots.snapshot_all(step)
        snapshots.snapshot_changes(step, {})
        return step.effects

    def deadline(self) -> int | None:
        """Return when the next timer is due; None for a group without any event."""
        state, due = self.state, self.state.next_snapshot
        if due == 0:
            return None
        if 0 < state.next_check < due:
            due = state.next_check
        if state.episode is None:
            return due
        closes = rebalances.deadline(state, self.policy)
        return due if closes is None else min(due, closes)

    def sources(self) -> list[str]:
        """Return the sources that report the group."""
        return _sources_of(self.state)

    def is_forgotten(self, cluster: ClusterState, now: int) -> bool:
        """Return whether the group has no incident, and was deleted, or nothing has reported it for group_memory."""
        state = self.state
        if state.incidents or (state.members and state.silent):
            return False
        return is_unreported(state, cluster, now, self.policy) or _is_long_unreported(state, now, self.policy)


def _sources_of(state: GroupState) -> list[str]:
    found = [view.hook_source for view in state.views.values() if view.hook_source]
    found += state.pops.sources if state.pops is not None else ()
    return [*found, state.collector] if state.collector else found


def _on_hook_restart(step: GroupStep, change: HookRestarted) -> bool:
    event = change.event
    view = step.state.views.get(event.broker)
    news = _news(step.state, event, seq=0)
    if news != "RESTART" or view is None or view.hook_source != source_of(event):
        return False
    hook.view_of(step, event, news)
    return True


def _on_broker_restart(step: GroupStep, change: BrokerRestarted) -> bool:
    view, of_cluster = step.state.views.get(change.event.broker), step.cluster.brokers.get(change.event.broker)
    if of_cluster is not None and broker_name_shared.is_shared(of_cluster, step.now):
        return False  # another broker answers by the name
    if view is None or step.state.collector != source_of(change.event) or step.live_hook(view) is not None:
        return False
    await_members(step, change.event.broker, view)
    return True


def _on_silence(step: GroupStep, change: SourceSilent) -> bool:
    state = step.state
    state.silent[change.source] = change.silence
    if change.source == state.collector:
        state.rounds = Rounds()
        for client in state.clients.values():
            client.unanswered = 0
        for view in state.views.values():
            view.stats_asked = 0
    _judge_source(step, change.source)
    return True


def _on_return(step: GroupStep, change: SourceBack) -> bool:
    if step.state.silent.pop(change.source, None) is None:
        return False
    _cover_from(step.state, step.now, lambda source: source == change.source)
    _judge_source(step, change.source)
    return True


def _on_cluster_change(step: GroupStep, change: ClusterChanged) -> bool:
    state = step.state
    brokers = [broker for broker in state.views if broker in change.subjects]
    proxies = [proxy for proxy in state.proxies if proxy in change.subjects]
    if not brokers and not proxies and state.collector.partition("/")[2] not in change.subjects:
        return False
    step.touched |= dict.fromkeys(mq for mq in state.queues if proxies or mq.broker in brokers)
    if state.incidents or proxies:
        step.changed("CLUSTER")
        step.brokers_to_judge |= dict.fromkeys(brokers)
    for broker in brokers:
        if broker not in step.cluster.brokers:
            end_broker(step, broker, GONE)
    return True


def _on_forgotten(step: GroupStep, change: SourceForgotten) -> bool:
    state, instance = step.state, change.source.partition("/")[2]
    is_concerned = _on_cluster_change(step, ClusterChanged(change.subjects))
    for broker in [broker for broker, view in state.views.items() if view.hook_source == change.source]:
        if broker not in step.cluster.brokers:
            end_broker(step, broker, GONE)
            is_concerned = True
    if change.source not in _sources_of(state):
        for kind in ("hook", "poll"):
            state.sequences.pop(f"{kind}/{instance}", None)
        state.silent.pop(change.source, None)
        state.losses.pop(change.source, None)
    return is_concerned


def _on_loss(step: GroupStep, change: EventsLost) -> bool:
    """Note the loss. Calls that a hook can't read are of one client each: they hide nothing of others.

    Otherwise any client could switch the rules off for all.
    """
    event, source = change.event, source_of(change.event)
    step.state.losses[source] = Loss(event.from_time, event.to_time, event.count, event.reason)
    if event.reason in _CALLERS_OWN:
        return False
    for view in step.state.views.values():
        if view.hook is not None and view.hook.source == source:
            view.hook.covered_since = max(view.hook.covered_since, event.to_time)
    pops.cover_from(step.state, event.to_time)
    return False


_CHANGES: Mapping[type[SourceChange], Callable[[GroupStep, Never], bool]] = {
    SourceSilent: _on_silence,
    SourceBack: _on_return,
    HookRestarted: _on_hook_restart,
    BrokerRestarted: _on_broker_restart,
    EventsLost: _on_loss,
    ClusterChanged: _on_cluster_change,
    SourceForgotten: _on_forgotten,
}
"""The function that applies each kind of change, and returns whether there is anything to judge."""


def _await_next_report(step: GroupStep) -> None:
    """Check a group with incidents and without members when it may have been deleted; later, at each snapshot."""
    state = step.state
    if state.incidents and not state.members and (due := unreported_at(state, step.policy) + 1) > step.now:
        step.schedule_check(due)


def _is_long_unreported(state: GroupState, now: int, policy: Policy) -> bool:
    """Return whether no event of the group has come for group_memory, as after it was deleted (deleteSubGroup).

    While a source is silent, a group with members or incidents may only be unobserved.
    """
    return now - state.last_seen > policy.group_memory


def _judge_source(step: GroupStep, source: str) -> None:
    """Schedule the judgement of everything that depends on a source."""
    step.changed("SOURCES")
    step.brokers_to_judge |= {broker: None for broker, view in step.state.views.items() if view.hook_source == source}


def _cover_from(state: GroupState, now: int, is_concerned: Callable[[str], bool]) -> None:
    """Start the covered time of sources at ``now``."""
    for view in state.views.values():
        if view.hook is not None and is_concerned(view.hook.source):
            view.hook.covered_since = now
    if is_concerned(state.collector):
        state.covered_since = now
    else:
        pops.cover_from(state, now)


def _concluded(step: GroupStep) -> list[AnyEffect]:
    if is_quiet(step):
        return step.effects
    judged = judge(step)
    if step.state.incidents:
        _await_next_report(step)
    if step.state.episode is not None:
        rebalances.settle(step)
    if step.touched or step.group_touched:
        snapshots.snapshot_changes(step, judged)
    return step.effects


def _next_snapshot(state: GroupState, now: int, policy: Policy) -> int:
    """Return the group's next snapshot time, one in each interval, independent of when a batch ran.

    Each group has its own offset: otherwise a cluster's thousands of groups would write their snapshots in one batch.
    """
    interval = policy.snapshot_interval
    own = int(stable_id(state.cluster, state.group), 16) % interval
    return ((now - own) // interval + 1) * interval + own


@lru_cache(maxsize=4096)
def _named(source: str, source_id: str) -> tuple[str, int]:
    instance, start = instance_of(source_id)
    return f"{source}/{instance}", start


def _news(state: GroupState, event: Event, seq: int) -> hook.News | None:
    """Return how the event follows its source's last one of the group; None if it was folded before."""
    name, start = _named(event.source, event.source_id)
    last = state.sequences.get(name)
    if last is not None and seq == last.seq + 1 and start == last.start and not last.skipped:
        last.seq = seq  # the usual case
        return "NEXT"
    if last is not None and last.covers(start, seq):
        return None
    note_sequence(state.sequences, name, Sequence(start, seq))
    if last is None:
        return "FIRST"
    if start > last.start:
        return "RESTART"
    if last.skipped and last.is_complete and seq == last.seq + 1:
        return "LATE"
    return "GAP" if last.skipped or seq > last.seq + 1 else "NEXT"


def _is_followed(state: GroupState, event: PollEvent, now: int, policy: Policy) -> bool:
    """Return whether a collector's answer counts; another collector is followed when the present one is silent."""
    source = source_of(event)
    if source != state.collector:
        left = state.collector in state.silent or now - state.polled_at > FOLLOW_INTERVALS * policy.poll_interval
        if state.collector and not left:
            return False
        state.collector, state.covered_since, state.lost_at, state.rounds = source, now, 0, Rounds()
    state.polled_at = now
    return True


def begun_again(cluster: str, group: str, remains: Remains, now: int) -> GroupState:
    """Return an empty state for a lost one, which continues the numbers of the group's rows and its own incident.

    Args:
        cluster: the cluster.
        group: the consumer group.
        remains: what is known of the former state.
        now: the time on the timeline; epoch milliseconds. No group has as many rows as milliseconds have passed since
            1970, so rows are numbered from it where the former number is unknown.
    """
    state = GroupState(cluster, group, rows=max(remains.rows, now), last_seen=now)
    former = {key: one for key, one in remains.incidents.items() if key == one.key and one.causes}
    for key in [key for key in former if key.code == CODE]:
        state.incidents[key] = former.pop(key)
        state.unsettled[key.subject] = 1
    earlier = remains.lost
    if earlier is not None:
        former = earlier.open_incidents | former
    state.lost = LostState("GROUP", earlier.since if earlier else now, now, earlier.count if earlier else 0, "", former)
    return state
