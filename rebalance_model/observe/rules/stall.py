"""Compute for how long a queue has waited: by its broker's answers (`offsets`), and by its hook alone.

By the hook, the messages that were pulled and not committed are the minimum that waits, for as long as no commit
advances. If a living owner has pulled up to the commit and pulls there again, nothing waits. If no client pulls, it is
unknown whether messages wait.

The rules about such a queue, ORDERED_QUEUE_STUCK and QUEUE_STALLED, share their first evidence fields and four
sub-causes.
"""

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

import msgspec

from rebalance_model.observe.facts.group_facts import is_subscribed
from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.group import ghost_connections, retaken
from rebalance_model.observe.hooks import pull_errors
from rebalance_model.observe.rules import (
    cid_view_split,
    route_view_split,
    stale_heartbeat,
    subscription_inconsistent,
    unresponsive,
)
from rebalance_model.observe.rules.ghost_connection import GHOST_ADVICE, GHOST_CONNECTION, GHOST_UNITS
from rebalance_model.observe.rules.rule import Advice, Evidence, Holds, Severity, Unit
from rebalance_model.observe.state import HookQueueView, HookView, IncidentKey, QueueState
from rebalance_model.observe.step import GroupStep

UNITS: Mapping[str, Unit] = {
    "owner": "text",
    "lag": "messages",
    "commit_offset": "offset",
    "broker_offset": "offset",
    "stalled_ms": "ms",
    "limit_ms": "ms",
    "lag_at_least": "messages",
    "pull_age_ms": "ms",
    "consume_age_ms": "ms",
    "cached_count": "messages",
    **GHOST_UNITS,
}
"""Units of the evidence fields that both rules have."""
RETAKEN = "RETAKEN"
"""The sub-cause of a queue that its client drops and takes again all the time (`group.retaken`)."""
RETAKEN_ADVICE = Advice(
    short="its client drops it and takes it again",
    what="The client drops the queue and takes it again, time after time, and nothing of it is consumed meanwhile.",
    first_step=(
        "Restart the client; read its log for why it drops the queue (doRebalance … pull expired, a pull that timed "
        "out), and check its connection to the broker."
    ),
    inspect=("THREADS", "PROGRESS"),
)
PULL_INTERVAL = "PULL_INTERVAL"
"""The sub-cause of a queue whose client pulls too seldom by its own setting, and so drops it and takes it again."""
OF_A_MOMENT = ("UNASSIGNED", "UNDETERMINED")
"""Sub-causes that a hand-over leads to for a while."""
ADVICE: Mapping[str, Advice] = {
    "UNASSIGNED": Advice(
        short="no member has it",
        what="No member has the queue: no consumer will process its messages.",
        first_step="Check that members run and subscribe to the topic, and that they agree on strategy and client ids.",
        inspect=("MEMBERS", "COMPARE"),
    ),
    GHOST_CONNECTION: GHOST_ADVICE,
    "OWNER_UNRESPONSIVE": Advice(
        short="its owner does not answer",
        what="The owner answers no request, but the broker still lists it as a member: the queue stays with it.",
        first_step="Check whether the owner's process is paused or starved; end it to free the queue at once.",
        inspect=("MEMBERS",),
    ),
    RETAKEN: RETAKEN_ADVICE,
    PULL_INTERVAL: Advice(
        short="its pullInterval is too long",
        what=(
            "The owner declares a pullInterval longer than pullMaxIdleTime (120 s): it takes its own wait for a "
            "pull that is lost, and drops the queue."
        ),
        first_step="Set the owner's pullInterval well below 120 s (0 is the default), and restart it.",
        inspect=("MEMBERS",),
    ),
    "NOT_REPORTED": Advice(
        short="its clients report nothing",
        what=(
            "Messages wait and the commit does not advance. Which member has the queue, and why it stands, is not "
            "known: members do not answer what they consume (GET_CONSUMER_RUNNING_INFO)."
        ),
        first_step=(
            "Look at the members' logs; where the collector's account may not send the request, or the clients do not "
            "know it, a broker's hook shows who has the queue."
        ),
        inspect=("MEMBERS", "PROGRESS"),
    ),
    "UNDETERMINED": Advice(
        short="the reason is unknown",
        what="Messages wait and the commit does not advance; telemetry does not show why.",
        first_step="Look at the owner's log and thread dump.",
        inspect=("THREADS", "MESSAGE"),
    ),
}
"""Advice for the sub-causes that both rules have."""


OwnerCause: TypeAlias = Literal["GHOST_CONNECTION", "NOT_REPORTED", "UNASSIGNED", "UNDETERMINED"]
"""The sub-causes of a queue without an owner that both rules have."""


class Stall(msgspec.Struct, frozen=True, gc=False):
    """The time for which a queue has waited."""

    ms: int
    """Milliseconds; 0: nothing waits."""
    lag: int | None
    """The minimum of messages that wait; None: it is unknown whether any do, and no living client has the queue."""
    moved: bool
    """True if the commit was seen to advance since the wait began, or nothing waited before."""


def find(step: GroupStep, q: QueueFacts, limit: int) -> Stall | None:
    """Return the longer wait of both sources; check again when it reaches the limit (ms). None: unknown, or no news.

    A commit that the hook saw advance after the last answer ends the wait, though the lag is not known.
    """
    queue, seen = q.queue, by_hook(step, q)
    lag, ms = queue.lag, queue.stalled_ms
    if seen is not None and ms and _is_as_polled(queue):
        seen = msgspec.structs.replace(seen, moved=False)  # a recent pull does not show what waited before
    is_current = lag is not None and queue.stats_at == step.now  # judged at the answer: the lag is certain only then
    polled = Stall(ms, lag, moved=ms == 0) if is_current else None
    if seen is None or (seen.lag is None and lag is not None and step.state.is_polled and not _is_news(seen, queue)):
        return polled
    if 0 < seen.ms <= limit:
        step.schedule_check(step.now + limit + 1 - seen.ms)
    return seen if polled is None or seen.ms >= polled.ms else polled


def _is_news(seen: Stall, queue: QueueState) -> bool:
    """Return whether the hook has seen the commit advance since the broker's last polled answer."""
    return seen.moved and queue.hook_view is not None and queue.hook_view.advanced_at > queue.stats_at


def _is_as_polled(queue: QueueState) -> bool:
    """Return whether the hook has reported no commit beyond the broker's last polled answer."""
    hook_view = queue.hook_view
    return hook_view is not None and queue.commit_offset is not None and hook_view.commit_offset <= queue.commit_offset


def by_hook(step: GroupStep, q: QueueFacts) -> Stall | None:
    """Return how long the queue has waited by its broker's hook; None if unknown."""
    queue, hook = q.queue, q.hook
    hook_view = queue.hook_view
    if hook_view is None or hook is None:
        return None
    if hook_view.commit_offset < 0:
        return _read_again(step, q, hook_view, hook)
    now = step.now
    behind_since = hook_view.behind_since
    if behind_since and _is_left(step, q, hook, hook_view):
        behind_since = 0
    since = min(filter(None, (hook_view.waiting_since, behind_since)), default=0)
    if since:
        waited = max(0, now - max(since, hook.covered_since, queue.returned_at))
        return Stall(waited, _at_least(queue, hook_view), moved=since >= hook.covered_since)
    unmoved = now - hook_view.advanced_at
    if unmoved <= step.policy.stuck_after:
        return Stall(unmoved, None, moved=True)
    if _is_left(step, q, hook, hook_view):
        return None
    since = max(hook.covered_since, queue.returned_at)
    return _unknown_lag(step, since, hook_view, last_sign(q, hook, hook_view))


def _is_left(step: GroupStep, q: QueueFacts, hook: HookView, hook_view: HookQueueView) -> bool:
    """Return whether no client has the queue, nor is supposed to have it (`released_queues`)."""
    if last_sign(q, hook, hook_view) is not None:
        return False
    return bool(step.state.members) and not is_subscribed(step.state, q.mq.topic)


def _at_least(queue: QueueState, hook_view: HookQueueView) -> int:
    """Return the least number of messages that wait: those beyond the hook's commit that were pulled or reported."""
    newest = queue.broker_offset or 0 if hook_view.behind_since else 0
    return max(1, max(hook_view.pull_offset, newest) - hook_view.commit_offset)


def _read_again(step: GroupStep, q: QueueFacts, hook_view: HookQueueView, hook: HookView) -> Stall | None:
    """Return the wait of a queue without a commit: its client takes it again and again, and reads the same messages."""
    messages = hook_view.pull_offset - hook_view.start_offset if hook_view.start_offset >= 0 else 0
    if messages <= 0 or q.queue.retaken is None or not retaken.is_again(step, q):
        return None
    return Stall(step.now - max(q.queue.retaken.since, hook.covered_since), messages, moved=False)


def _unknown_lag(step: GroupStep, since: int, hook_view: HookQueueView, sign: int | None) -> Stall | None:
    """Return the wait of a queue without pulled uncommitted messages.

    It would be known ``since`` then; ``sign`` is when its owner was last active, None if it has none (epoch ms).
    """
    now, policy = step.now, step.policy
    if sign is not None and now - sign <= policy.unresponsive_after:
        if hook_view.pulled_again and hook_view.pull_offset == hook_view.commit_offset:
            return Stall(0, 0, moved=True)
        step.schedule_check(sign + policy.unresponsive_after + 1)
        return None
    if now - hook_view.advanced_at > policy.moved_within:
        return None
    alone = now - max(hook_view.advanced_at, sign or 0, hook_view.pull_time, hook_view.holder_since, since)
    return Stall(alone, None, moved=False)


def last_sign(q: QueueFacts, hook: HookView, hook_view: HookQueueView) -> int | None:
    """Return when the queue's owner last sent a heartbeat, renewed its lock or pulled; None if it has no owner."""
    owner = q.queue.owner
    if owner is None:
        return None
    heartbeats, entry = hook.heartbeats.get(owner), hook.locks.get(q.mq)
    return max(
        heartbeats.last if heartbeats is not None else 0,
        entry.last_update_timestamp if entry is not None and entry.client_id == owner else 0,
        hook_view.pull_time if hook_view.holder == owner else 0,
    )


def is_unresponsive(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the broker received nothing from the owner for `unresponsive_after`, though its hook reports."""
    hook_view = q.seen
    hook = q.hook
    sign = last_sign(q, hook, hook_view) if hook is not None and hook_view is not None else None
    if hook is None or sign is None:
        return False
    error = pull_errors.error_of(step, q)
    refused = error.last if error is not None and error.client_id in (None, q.queue.owner) else 0
    return step.now - max(sign, refused, hook.covered_since) > step.policy.unresponsive_after


def causes(step: GroupStep, broker: str, sub_cause: str, owner: str | None) -> tuple[IncidentKey, ...]:
    """Return the owner's open incidents that explain why a queue of the broker waits, by the sub-cause."""
    if sub_cause == "OWNER_UNRESPONSIVE":
        return unresponsive.causes_of(step, broker, owner)
    if sub_cause != "NOTHING_RECEIVED":
        return ()
    return (*stale_heartbeat.explains(step, broker, owner), *cid_view_split.explains_pulls(step, broker, owner))


def causes_of_unassigned(step: GroupStep, q: QueueFacts) -> tuple[IncidentKey, ...]:
    """Return the group's open incidents that explain why the queue is in no member's share, or is left by it."""
    by_routes, by_lists = route_view_split.explains(step, q.mq), cid_view_split.explains(step)
    return (*by_routes, *by_lists, *subscription_inconsistent.explains(step, q.mq.topic))


def of_same_client(step: GroupStep, code: str, q: QueueFacts, sub_causes: Collection[str]) -> tuple[IncidentKey, ...]:
    """Return the client's open incident of another queue by these causes, under which those of its others are shown."""
    client_id = q.queue.owner or q.queue.former_owner
    for key, one in step.state.incidents.items():
        is_root = one.parent is None and one.cleared_at is None and one.queue not in (None, q.mq)
        if is_root and (one.code, one.client_id) == (code, client_id) and one.sub_cause in sub_causes:
            return (key,)
    return ()


def of_retaken(step: GroupStep, code: str, q: QueueFacts, severity: Severity) -> Holds:
    """Return the verdict about a queue that its client drops and takes again all the time: one such explains others."""
    client_id, sub_cause = q.queue.owner or q.queue.former_owner, RETAKEN
    if waits_too_long(step, q):
        sub_cause = PULL_INTERVAL
    explained_by = (*route_view_split.explains(step, q.mq), *of_same_client(step, code, q, (RETAKEN, PULL_INTERVAL)))
    return Holds(severity, sub_cause, client_id, explained_by=explained_by)


def waits_too_long(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the queue's client waits longer before each pull than it may be without one, as it declares."""
    client = step.state.clients.get(q.queue.owner or q.queue.former_owner or "")
    declared = client.pull_interval if client is not None else None
    return declared is not None and declared > step.policy.pull_max_idle_time


def settled(step: GroupStep, code: str, q: QueueFacts, sub_cause: str) -> str:
    """Return the sub-cause of an incident: the former one while the queue is between owners, or has a new one.

    That it has no owner for a moment, or that its next one has not consumed yet, explains nothing.
    """
    incident = step.state.incidents.get(IncidentKey(code, str(q)))
    if incident is None or sub_cause not in OF_A_MOMENT or incident.sub_cause == "UNASSIGNED":
        return sub_cause
    without, seen = q.queue.unassigned, q.seen
    if without is not None and q.queue.former_owner not in step.facts.members:
        return sub_cause
    since = without.since if without is not None else seen.holder_since if seen is not None else 0
    due = since + step.policy.consume_frozen_after
    if step.now > due:
        return sub_cause
    step.schedule_check(due + 1)
    return incident.sub_cause


def _is_committed(step: GroupStep, seen: HookQueueView) -> bool:
    """Return whether a member commits the queue, as it does at every persist interval while it has the queue."""
    is_recent = step.now - seen.commit_time <= 2 * step.policy.persist_consumer_offset_interval
    return is_recent and seen.committer in step.facts.members


def without_owner(step: GroupStep, q: QueueFacts) -> OwnerCause:
    """Return why a queue that no client keeps has no owner; one that no member reports may be with a mute one.

    A member that commits it has it, though a hook that started late has not seen how it took it.
    """
    if q.hook is None and step.facts.mute:
        return "NOT_REPORTED"
    if q.hook is not None and q.seen is not None and _is_committed(step, q.seen):
        return "UNDETERMINED"
    return GHOST_CONNECTION if ghost_connections.leaves_unassigned(step, q.queue) else "UNASSIGNED"


def evidence(step: GroupStep, q: QueueFacts, limit_ms: int) -> Evidence:
    """Return the owner, the lag, the offsets, and for how long the queue has waited (ms).

    Commit, newest offset and lag are those of the last answer. If the hook has seen another commit since, or more
    messages that are pulled and not committed, the commit is the hook's and the lag a lower bound.
    """
    queue, seen = q.queue, by_hook(step, q)
    lag, at_least = queue.lag, _after_answer(q)
    if at_least is None and seen is not None and seen.lag is not None and (lag is None or lag < seen.lag):
        at_least = seen.lag
    is_outdated = at_least is not None
    return {
        "owner": queue.owner,
        "lag": None if is_outdated else lag,
        "lag_at_least": at_least,
        "commit_offset": q.commit_offset if is_outdated or queue.broker_offset is None else queue.position,
        "broker_offset": None if is_outdated else queue.broker_offset,
        "stalled_ms": max(seen.ms, queue.stalled_ms) if seen is not None else queue.stalled_ms,
        "limit_ms": limit_ms,
    }


def _after_answer(q: QueueFacts) -> int | None:
    """Return the lower bound of the lag by a commit that the hook has seen after the last answer; None: it saw none."""
    queue, hook_view = q.queue, q.seen
    if q.hook is None or hook_view is None or queue.broker_offset is None or hook_view.commit_time <= queue.stats_at:
        return None
    commit = hook_view.commit_offset
    return max(0, queue.broker_offset - commit, hook_view.pull_offset - commit) if commit != queue.position else None
