"""Compute for how long a queue has waited: by its broker's answers (`offsets`), and by calls alone.

By calls, the messages that were pulled and not committed are the minimum that waits, for as long as no commit
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
from rebalance_model.observe.state import HookQueueView, IncidentKey, QueueState
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

    A commit that calls show to advance after the last answer ends the wait, though the lag is not known.
    """
    queue, seen = q.queue, by_calls(step, q)
    lag, ms = queue.lag, queue.stalled_ms
    if seen is not None and ms and _is_as_polled(q):
        seen = msgspec.structs.replace(seen, moved=False)  # a recent pull does not show what waited before
    is_current = lag is not None and queue.stats_at == step.now  # judged at the answer: the lag is certain only then
    polled = Stall(ms, lag, moved=ms == 0) if is_current else None
    is_answered = lag is not None and "OFFSETS" not in step.facts.missing
    if seen is None or (seen.lag is None and is_answered and not _is_news(seen, q)):
        return polled
    if 0 < seen.ms <= limit:
        step.schedule_check(step.now + limit + 1 - seen.ms)
    return seen if polled is None or seen.ms >= polled.ms else polled


def _is_news(seen: Stall, q: QueueFacts) -> bool:
    """Return whether calls have shown the commit advance since the broker's last polled answer."""
    return seen.moved and q.seen is not None and q.seen.advanced_at > q.queue.stats_at


def _is_as_polled(q: QueueFacts) -> bool:
    """Return whether calls have shown no commit beyond the broker's last polled answer."""
    polled = q.queue.commit_offset
    return q.seen is not None and polled is not None and q.seen.commit_offset <= polled


def by_calls(step: GroupStep, q: QueueFacts) -> Stall | None:
    """Return how long the queue has waited by the calls at its broker; None if unknown."""
    queue, calls = q.queue, q.calls
    if calls is None:
        return None
    if calls.commit_offset < 0:
        return _read_again(step, q, calls)
    now = step.now
    behind_since = calls.behind_since
    if behind_since and _is_left(step, q):
        behind_since = 0
    since = min(filter(None, (calls.waiting_since, behind_since)), default=0)
    if since:
        waited = max(0, now - max(since, queue.returned_at, q.watched_since))
        return Stall(waited, _at_least(queue, calls), moved=q.watched_since <= since)
    unmoved = now - calls.advanced_at
    if unmoved <= step.policy.stuck_after:
        return Stall(unmoved, None, moved=True)
    return _unknown_lag(step, q, calls) if not _is_left(step, q) else None


def _is_left(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether no client has the queue, nor is supposed to have it (`released_queues`)."""
    if q.owner_called_at is not None:
        return False
    return bool(step.state.members) and not is_subscribed(step.state, q.mq.topic)


def _at_least(queue: QueueState, calls: HookQueueView) -> int:
    """Return the least number of messages that wait: those beyond the called commit that were pulled or reported."""
    newest = queue.broker_offset or 0 if calls.behind_since else 0
    return max(1, max(calls.pull_offset, newest) - calls.commit_offset)


def _read_again(step: GroupStep, q: QueueFacts, calls: HookQueueView) -> Stall | None:
    """Return the wait of a queue without a commit: its client takes it again and again, and reads the same messages."""
    messages = calls.pull_offset - calls.start_offset if calls.start_offset >= 0 else 0
    if messages <= 0 or q.queue.retaken is None or not retaken.is_again(step, q):
        return None
    return Stall(step.now - max(q.queue.retaken.since, q.watched_since), messages, moved=False)


def _unknown_lag(step: GroupStep, q: QueueFacts, calls: HookQueueView) -> Stall | None:
    """Return the wait of a queue without pulled uncommitted messages."""
    now, policy, called_at = step.now, step.policy, q.owner_called_at
    if called_at is not None and now - called_at <= policy.unresponsive_after:
        if calls.pulled_again and calls.pull_offset == calls.commit_offset:
            return Stall(0, 0, moved=True)
        step.schedule_check(called_at + policy.unresponsive_after + 1)
        return None
    if now - calls.advanced_at > policy.moved_within:
        return None
    last = max(calls.advanced_at, called_at or 0, calls.pull_time, calls.holder_since)
    return Stall(now - max(last, q.queue.returned_at, q.watched_since), None, moved=False)


def is_unresponsive(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the broker received nothing from the owner for `unresponsive_after`, as far as its calls show."""
    called_at = q.owner_called_at
    if called_at is None:
        return False
    error = pull_errors.error_of(step, q)
    refused = error.last if error is not None and error.client_id in (None, q.queue.owner) else 0
    return step.now - max(called_at, refused, q.watched_since) > step.policy.unresponsive_after


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
    if q.is_owner_hidden:
        return "NOT_REPORTED"
    if q.calls is not None and _is_committed(step, q.calls):
        return "UNDETERMINED"
    return GHOST_CONNECTION if ghost_connections.leaves_unassigned(step, q.queue) else "UNASSIGNED"


def evidence(step: GroupStep, q: QueueFacts, limit_ms: int) -> Evidence:
    """Return the owner, the lag, the offsets, and for how long the queue has waited (ms).

    Commit, newest offset and lag are those of the last answer. If calls have shown another commit since, or more
    messages that are pulled and not committed, the commit is theirs and the lag a lower bound.
    """
    queue, seen, lag, commit = q.queue, by_calls(step, q), q.lag, q.commit
    at_least = lag.value if lag is not None and lag.source == "CALLS" else None
    if at_least is None and seen is not None and seen.lag is not None and (lag is None or lag.value < seen.lag):
        at_least = seen.lag
    is_outdated = at_least is not None
    called = commit.value if commit is not None else None
    return {
        "owner": queue.owner,
        "lag": lag.value if lag is not None and not is_outdated else None,
        "lag_at_least": at_least,
        "commit_offset": called if is_outdated or queue.broker_offset is None else queue.position,
        "broker_offset": None if is_outdated else queue.broker_offset,
        "stalled_ms": max(seen.ms, queue.stalled_ms) if seen is not None else queue.stalled_ms,
        "limit_ms": limit_ms,
    }
