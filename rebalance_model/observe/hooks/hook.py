"""Fold the events of a broker's hook for a group: members, locks, pulls and commits as they happen.

Each kind of call has a module: `member_calls`, `lock_requests`, `offset_queries` (with who holds a queue), `commits`,
`pops`; pulls are folded here.

One replica of a broker is followed: its master, or the slave that stands in for it. Every replica gets heartbeats, and
a slave serves pulls; but clients lock, commit and request lists and offsets at the master, or at a slave while they
know no master. So such a call at another replica shows a failover, whether a slave acts as master or a controller has
elected another one; its lock table is another one, as after a restart. Of the other replicas only pulls count.

The pulls of a second (PULL_MESSAGE) show who reads a queue, and how far. They name a holder only if none is known (of
an ordered queue: the client that still has its lock), or if the known one has not pulled for long: two clients pull one
queue alternately until both have rebalanced, and the sum of the former owner's pulls in its last second comes after the
new owner's query.
"""

from collections.abc import Callable, Mapping
from typing import Literal, Never, TypeAlias, cast

from rebalance_model.broker.broker_config import SUCCESS
from rebalance_model.broker.consumer_group_info import ConsumerGroupInfo
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    AckMessage,
    BrokerStatus,
    ChangeMessageInvisibletime,
    GetConsumerListByGroup,
    HeartBeat,
    HookEvent,
    InvokeBrokerToResetOffset,
    LockBatchMq,
    PopMessage,
    PoppedEvent,
    ProxyHeartBeat,
    PullMessage,
    QueryConsumerOffset,
    UnlockBatchMq,
    UnregisterClient,
    UpdateConsumerOffset,
    source_of,
)
from rebalance_model.observe.group import ghost_connections, jumps, rebalances
from rebalance_model.observe.group.ghost_connections import client_of_channel
from rebalance_model.observe.group.member_types import is_outsider
from rebalance_model.observe.group.membership import HEARD_FROM_ALL, Before, follow
from rebalance_model.observe.hooks import (
    commits,
    heartbeats,
    lock_requests,
    member_calls,
    offset_queries,
    pops,
    pull_errors,
    released_queues,
)
from rebalance_model.observe.state import BrokerView, ConcurrentPuller, HookQueueView, HookView
from rebalance_model.observe.step import GroupStep

PULL_SILENCE = 30_000
"""A client that has a queue pulls it within this time, unless it is known to hold back; milliseconds."""


def fold_pulls(step: GroupStep, view: BrokerView, hook: HookView, event: PullMessage) -> None:
    """Apply pulls; their commit comes last: it is that of the last of these pulls, which began before it."""
    state, mq = step.state, MessageQueue(event.topic, event.broker, event.queue_id)
    client_id = client_of_channel(view, hook, event.channel)
    if client_id is None:
        jumps.note_unknown_puller(hook, event.channel, event.last_time)
    if state.pops is not None:
        pops.note_pull(step, state.pops, event, client_id)
    queue = state.queues.get(mq)
    if queue is not None and queue.ended is not None:
        released_queues.note_read(step, mq)
    hook_view = (queue.hook_view if queue is not None else None) or step.hook_view(mq)
    if hook_view.former is not None and hook_view.former.client_id != hook_view.holder:
        commits.note_former(step, mq, client_id, event)
    if hook_view.pull_error is not None or event.code not in (None, SUCCESS):
        pull_errors.note(step, mq, client_id, event)
    client = state.clients.get(client_id) if client_id in state.members else None
    if client_id is not None and client is not None and not is_outsider(state, client):
        _pull_of(step, hook, mq, hook_view, client_id, event)
    if (committed := event.committed) >= 0:
        commit = commits.Commit(committed, event.last_time, client_id, event.channel, carried=True)
        commits.note_commit(step, mq, hook_view, commit)


def _pull_of(
    step: GroupStep, hook: HookView, mq: MessageQueue, hook_view: HookQueueView, client_id: str, event: PullMessage
) -> None:
    if client_id != hook_view.holder and offset_queries.is_locked(step, hook, mq):
        if hook_view.holder is None and offset_queries.has_living_lock(step, hook, mq, client_id, event.first_time):
            offset_queries.hold(step, hook, client_id, [mq], "PULLED")  # it was cut off, dropped, and has returned
        elif step.state.orderly:
            _check_order(step, _note_concurrent_puller(step, mq, client_id, event))
    elif client_id != hook_view.holder:
        rivals = (
            hook_view.holder is not None and step.state.queues[mq].owner != client_id
        )  # otherwise its own answer shows it
        if rivals and event.last_time - hook_view.pull_time <= PULL_SILENCE:
            _note_concurrent_puller(step, mq, client_id, event)
            return
        offset_queries.hold(step, hook, client_id, [mq], "PULLED")
    if client_id == hook_view.holder:
        commits.note_pull(step, mq, hook_view, event)
        if commits.is_served(event) and (hook_view.begun_at or not _awaits_lock(step, hook, mq, client_id, event)):
            commits.begin(step, mq, hook_view, event.last_time if hook_view.begun_at else event.first_time)


def _awaits_lock(step: GroupStep, hook: HookView, mq: MessageQueue, client_id: str, event: PullMessage) -> bool:
    """Return whether the queue is ordered and a client that has not begun has yet to be granted its lock."""
    if not offset_queries.is_locked(step, hook, mq):
        return False
    return not offset_queries.has_living_lock(step, hook, mq, client_id, event.first_time)


def _note_concurrent_puller(step: GroupStep, mq: MessageQueue, client_id: str, event: PullMessage) -> ConcurrentPuller:
    """Record that two clients pull one queue, as happens briefly at each hand-over."""
    hook_view = step.hook_view(mq)
    puller = hook_view.concurrent_puller
    if puller is None or puller.client_id != client_id or event.first_time - puller.pull_time > PULL_SILENCE:
        puller = hook_view.concurrent_puller = ConcurrentPuller(client_id, event.first_time, event.last_time)
    puller.pull_time = event.last_time
    step.queues_to_judge[mq] = None
    return puller


def _check_order(step: GroupStep, puller: ConcurrentPuller) -> None:
    """Check whether the group is still ordered: not if one client keeps pulling and none renews its locks (20 s)."""
    lives = step.policy.client_lock_max_live_time
    hooks = [view.hook for view in step.state.views.values() if view.hook is not None]
    renewed = (not entry.is_expired(step.now, lives) for hook in hooks for entry in hook.locks.values())
    if puller.pull_time - puller.since > lives and not any(renewed):
        _end_order(step)


def _end_order(step: GroupStep) -> None:
    """Switch the group to concurrent: owners were derived from locks so far, and are derived from pulls now."""
    step.state.orderly = None
    step.changed("ORDER")
    step.queues_to_judge |= dict.fromkeys(step.state.queues)
    for view in step.state.views.values():
        if view.hook is not None:
            view.hook.locks = {}
    for mq, queue in step.state.queues.items():
        hook = step.hook_of(mq.broker)
        if hook is not None and queue.hook_view is not None and queue.hook_view.concurrent_puller is not None:
            puller, queue.hook_view.concurrent_puller = queue.hook_view.concurrent_puller, None
            offset_queries.hold(step, hook, puller.client_id, [mq], "PULLED")


News: TypeAlias = Literal["FIRST", "NEXT", "GAP", "LATE", "RESTART"]
"""The relation of an event to the one before it of the same source and group."""

_AT_MASTER = (LockBatchMq, UpdateConsumerOffset, GetConsumerListByGroup, QueryConsumerOffset)
"""Calls that a client sends to the master of a broker, if it knows one."""
OF_POPS: frozenset[type[HookEvent]] = frozenset({PopMessage, AckMessage, ChangeMessageInvisibletime, ProxyHeartBeat})
"""Calls of consumers that pop, or about them (`pops`). They show gaps and restarts of the hook, as any event of it."""
ROUTES_RENEWED = 30_000
"""All clients know a new master after this time (pollNameServerInterval); until then they use two; milliseconds."""


def fold_hook(step: GroupStep, event: HookEvent, news: News) -> None:
    """Fold one event of a broker's hook."""
    if news not in ("FIRST", "NEXT"):
        pops.on_gap(step, event.broker)
    if type(event) in OF_POPS:
        pops.fold(step, cast("PoppedEvent | ProxyHeartBeat", event))
        if not _is_seen(step, event):
            return  # otherwise a broker without members, as proxies' clients are none, would count as observed
    followed = _follows(step, event)
    if followed == "OTHER":
        _note_slave(step, event)
        return
    if followed == "FAILOVER":
        news = "RESTART"
        _follow(step.state.views[event.broker], source_of(event))
    view, hook = view_of(step, event, news)
    if (fold := _FOLDS.get(type(event))) is not None:  # none of OF_POPS
        fold(step, view, hook, cast("Never", event))  # each takes its own kind
    if hook.lost_locks and step.changes:  # a client that has left no longer relies on its locks
        step.brokers_to_judge[event.broker] = None
    step.schedule_check(step.now + step.policy.client_lock_max_live_time + 1)  # before that nothing is due


def _is_seen(step: GroupStep, event: HookEvent) -> bool:
    """Return whether the group's members and queues at this broker are known from its hook."""
    view = step.state.views.get(event.broker)
    return view is not None and view.hook is not None


def _follows(step: GroupStep, event: HookEvent) -> Literal["FOLLOWED", "FAILOVER", "OTHER"]:
    """Return whether the event is of the replica that is followed, or shows that clients now use this one instead."""
    if isinstance(event, LockBatchMq) and event.only_this_broker:
        return "OTHER"  # not a client's: with lockInStrictMode the master forwards locks to its slaves
    view, source = step.state.views.get(event.broker), source_of(event)
    if view is None or not view.hook_source:
        return "FOLLOWED" if not event.broker_id or isinstance(event, LockBatchMq) else "OTHER"
    if view.hook_source == source:
        return "FOLLOWED"
    hook = step.live_hook(view)
    if not isinstance(event, _AT_MASTER) or event.code != SUCCESS:
        return "OTHER"
    if hook is not None and step.now - hook.covered_since <= ROUTES_RENEWED:
        return "OTHER"
    return "FAILOVER"


def _follow(view: BrokerView, source: str) -> None:
    """Follow the hook of another replica from now on."""
    view.hook_source = source
    if view.hook is not None:
        view.hook.source = source


def _note_slave(step: GroupStep, event: HookEvent) -> None:
    """Process an event of a slave, which serves the queue in place of its master, on another connection."""
    if isinstance(event, PullMessage) and step.hook_of(event.broker) is not None:
        queue = step.state.queues.get(MessageQueue(event.topic, event.broker, event.queue_id))
        if queue is not None and queue.hook_view is not None:
            queue.hook_view.pull_time = step.now
            if not step.state.orderly and queue.hook_view.holder is not None:
                commits.begin(step, MessageQueue(event.topic, event.broker, event.queue_id), queue.hook_view, step.now)


def _restart(step: GroupStep, broker: str, view: BrokerView, hook: HookView) -> None:
    """Apply the restart of a broker, which has no members and locks then; clients return with their next heartbeat.

    The offsets are those stored last, up to 5 s old: unknown until the next commit.
    """
    before, now = Before(step.state, broker), step.now
    for mq, queue in step.state.queues.items():
        if mq.broker == broker and queue.hook_view is not None:
            commits.note_restart(step, mq, queue.hook_view)
    lock_requests.note_restart(step, broker, hook)
    hook.expected_back_until = dict.fromkeys(before.ids or (), now + HEARD_FROM_ALL)
    view.info = ConsumerGroupInfo()
    hook.refused_heartbeats, hook.expired, hook.skips_group = {}, {}, False
    hook.locks, hook.heartbeats, hook.client_by_channel, hook.unattributed_queries = {}, {}, {}, {}
    hook.unconfirmed_differences = ()
    hook.complete_at = hook.covered_since = view.back_at = now
    step.schedule_check(now + HEARD_FROM_ALL)
    rebalances.open_or_extend(step, "BROKER_RESTARTED", broker, client_id=None)
    rebalances.interrupt_all(step, broker)
    follow(step, before, first_sight=False)


def scan(step: GroupStep, broker: str, view: BrokerView, hook: HookView) -> None:
    """Apply the changes in the broker's view that time alone makes, and schedule the next check."""
    state, now = step.state, step.now
    before = Before(state, broker)
    member_calls.scan(view, state.group, now)
    hook.expected_back_until = {c: until for c, until in hook.expected_back_until.items() if until > now}
    hook.recent_unregisters = {c: at for c, at in hook.recent_unregisters.items() if now - at <= HEARD_FROM_ALL}
    hook.unattributed_queries = {
        channel: mqs for channel, mqs in hook.unattributed_queries.items() if now - max(mqs.values()) <= HEARD_FROM_ALL
    }
    heartbeats.note_listed(hook, view.info.client_ids(), now)
    if hook.seldom_heartbeats:
        heartbeats.forget_ended(hook, now)
    hook.refused_heartbeats = {
        c: one
        for c, one in hook.refused_heartbeats.items()
        if ghost_connections.find_refused(hook, c, now, step.policy)
    }
    follow(step, before, first_sight=False)
    hook.client_by_channel = {channel: c for channel, c in hook.client_by_channel.items() if c in step.facts.members}
    hook.rebalance_loops = {c: asking for c, asking in hook.rebalance_loops.items() if c in step.facts.members}
    timers = [
        *hook.expected_back_until.values(),
        *(max(mqs.values()) + HEARD_FROM_ALL + 1 for mqs in hook.unattributed_queries.values()),
    ]
    if (expiry := member_calls.next_expiry(view)) is not None:
        timers.append(expiry)
    if timers:
        step.schedule_check(min(timers))


def view_of(step: GroupStep, event: HookEvent | BrokerStatus, news: News) -> tuple[BrokerView, HookView]:
    """Return the broker's view and its hook's, after what the event's number shows: a restart, a gap.

    A view that polls have corrected away, as an answer of a restarted broker does that comes before its hook's first
    event, is created again.
    """
    state = step.state
    view = state.views.get(event.broker)
    if view is None:
        view = state.views[event.broker] = BrokerView(ConsumerGroupInfo(), asked=0)
    hook = view.hook
    if hook is None:
        from_boot = event.seq == 1
        view.hook_source = source_of(event)
        hook = view.hook = HookView(view.hook_source, event.time if from_boot else event.time + HEARD_FROM_ALL)
        for info in view.info.channel_info_table.values():
            info.last_update_timestamp = event.time  # listed by a poll: its age is unknown
    if news == "RESTART":
        _restart(step, event.broker, view, hook)
    if news == "GAP":
        hook.lost_at = event.time
        step.brokers_to_judge[event.broker] = None
    if news != "NEXT" or not hook.covered_since:
        hook.covered_since = event.time
    return view, hook


def _commit(step: GroupStep, view: BrokerView, hook: HookView, event: UpdateConsumerOffset) -> None:
    if event.code == SUCCESS:
        mq = MessageQueue(event.topic, event.broker, event.queue_id)
        client_id = client_of_channel(view, hook, event.channel)
        commit = commits.Commit(event.offset, event.time, client_id, event.channel)
        commits.note_commit(step, mq, step.hook_view(mq), commit)


def _reset(_: GroupStep, __: BrokerView, hook: HookView, event: InvokeBrokerToResetOffset) -> None:
    jumps.note_reset(hook, event)


_FOLDS: Mapping[type[HookEvent], Callable[[GroupStep, BrokerView, HookView, Never], None]] = {
    PullMessage: fold_pulls,
    UpdateConsumerOffset: _commit,
    LockBatchMq: lock_requests.fold_lock,
    HeartBeat: member_calls.fold_heartbeat,
    GetConsumerListByGroup: member_calls.fold_list,
    QueryConsumerOffset: offset_queries.fold_query,
    UnlockBatchMq: lock_requests.fold_unlock,
    UnregisterClient: member_calls.fold_unregistration,
    InvokeBrokerToResetOffset: _reset,
}
"""The function that folds each kind of call."""
