"""QUEUE_UNASSIGNED: a queue that members should consume is nobody's, for longer than a hand-over takes.

How long that is depends on how it began: an heir of a queue that was seen to be given up needs two turns of its 20 s
timer; a new queue is first seen by the clients at their next look at the route; in any other case the broker may have
to find out that the owner is gone. Where the strategy itself leaves the queue to nobody (a thawed client stands twice
in the list until its former channel expires) it takes as long, whatever was seen.

Only what every member has said since that time counts; of a group with a silent member it is not known.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group.expectation import is_divided, is_subscribed
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.polls.offsets import lag_of
from rebalance_model.observe.state import GroupState, QueueState
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, mq: MessageQueue) -> Verdict:
    """By how long everybody has answered without the queue."""
    state = turn.state
    queue = state.queues[mq]
    if queue.owner is not None or not queue.in_route or mq.is_retry:
        return CLEAR
    if not state.members or not is_divided(state) or not is_subscribed(state, mq.topic):
        return CLEAR
    since, grace = _since(state, queue), _grace(turn.policy, queue)
    if queue.unowned is None or state.rounds.known_at <= since + grace:
        return None  # asked again when all have answered (`rounds`)
    lag, former = lag_of(queue), queue.unowned.lag
    grows = lag is not None and former is not None and lag > former
    return Holds("critical" if grows else "warning")


def evidence(turn: Turn, mq: MessageQueue) -> Evidence:
    """Since when, what it may take, and who should have it."""
    queue = turn.state.queues[mq]
    return {
        "owner": queue.owner,
        "expected_owner": queue.expected,
        "former_owner": queue.former_owner,
        "unowned_ms": turn.now - _since(turn.state, queue) if queue.owner is None else 0,
        "limit_ms": _grace(turn.policy, queue),
        "lag": lag_of(queue),
        "lag_then": queue.unowned.lag if queue.unowned is not None else None,
    }


def _since(state: GroupState, queue: QueueState) -> int:
    return max(queue.unowned.since if queue.unowned is not None else 0, state.manned_since)


def _grace(policy: Policy, queue: QueueState) -> int:
    how = queue.unowned.how if queue.unowned is not None else ""
    if how == "NEW":
        return policy.unassigned_after_new
    if how == "SAID" and queue.expected is not None:
        return policy.unassigned_after_release
    return policy.unassigned_after


RULE = Rule(
    "QUEUE_UNASSIGNED",
    judge,
    evidence,
    absorbed_by=("LOCK_ORPHANED", "BROKER_UNREACHABLE", "TELEMETRY_GAP", "REBALANCE_STORM"),
)
