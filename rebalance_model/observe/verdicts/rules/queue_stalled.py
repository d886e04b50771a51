"""QUEUE_STALLED: a queue that is consumed concurrently has lag, and its commit has not advanced for long.

The commit of such a queue is the smallest offset that is still in work: one listener that does not return holds it,
though the others go on, until consumeConcurrentlyMaxSpan messages wait behind it. Judged as ORDERED_QUEUE_STUCK is, on
covered time alone; a queue of which its owner has nothing cached, or which it has given up without a word
(`given_up`), does not wait for a listener.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group import ghost_connections
from rebalance_model.observe.group.expectation import division, is_divided
from rebalance_model.observe.hooks import given_up
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.polls.offsets import lag_of
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts import stall
from rebalance_model.observe.verdicts.ages import Ages
from rebalance_model.observe.verdicts.rules.queue_unassigned import GHOST_CONNECTION, ghost_evidence
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, mq: MessageQueue) -> Verdict:
    """By how long the queue has waited; not known until that is long enough."""
    queue = turn.state.queues[mq]
    state = turn.state
    if division(state) in ("BROADCAST", "POPPED"):
        return CLEAR  # offsets of the broker are leftovers, or advance when messages are popped
    concurrent = state.orderly is False or (state.orderly is None and not state.is_polled)  # no lock was asked for
    if not concurrent or mq.is_retry:
        return None
    waited = stall.of(turn, mq, _limit(turn.policy))
    if waited is None:
        return None
    if waited.ms <= _limit(turn.policy):
        return CLEAR if waited.moved else None
    ages = Ages.of(turn, mq)
    held = ages.queue if ages is not None else None
    if held.cached_count <= 0 if held is not None else not state.is_polled and given_up.by_its_owner(turn, mq):
        return None
    return Holds("warning", _sub_cause(turn, mq, ages), queue.owner)


def evidence(turn: Turn, mq: MessageQueue) -> Evidence:
    """Lag, offsets, and what its owner last showed."""
    queue, ages = turn.state.queues[mq], Ages.of(turn, mq)
    found: Evidence = {
        "owner": queue.owner,
        "lag": lag_of(queue),
        "commit_offset": queue.commit_offset,
        "broker_offset": queue.broker_offset,
        "stalled_ms": queue.stalled_ms,
        "limit_ms": _limit(turn.policy),
    }
    if (told := stall.by_hook(turn, mq)) is not None:
        found |= {"stalled_ms": max(told.ms, queue.stalled_ms), "lag_at_least": told.lag}
    if ages is not None:
        found |= {"pull_age_ms": ages.pull, "consume_age_ms": ages.consume}
        found["cached_count"] = ages.queue.cached_count if ages.queue is not None else None
    return found | ghost_evidence(turn, mq)


def _limit(policy: Policy) -> int:
    return policy.stuck_after + policy.stalled_open_after


def _sub_cause(turn: Turn, mq: MessageQueue, ages: Ages | None) -> str:
    """The first that fits."""
    if ages is None and not is_divided(turn.state) and turn.state.members:
        return "UNDETERMINED"  # its clients do not say who has it
    if ages is None:
        return GHOST_CONNECTION if ghost_connections.leaves_unassigned(turn, mq) else "UNASSIGNED"
    if ages.client.silent and turn.now - ages.client.answered > turn.policy.unresponsive_after:
        return "OWNER_UNRESPONSIVE"
    if ages.queue is not None:
        return "LISTENER_HUNG"
    if stall.is_unresponsive(turn, mq):
        return "OWNER_UNRESPONSIVE"
    return "LISTENER_BLOCKED" if stall.by_hook(turn, mq) is not None else "UNDETERMINED"


RULE = Rule(
    "QUEUE_STALLED",
    judge,
    evidence,
    absorbed_by=("LOCK_ORPHANED", "BROKER_UNREACHABLE", "TELEMETRY_GAP", "REBALANCE_STORM"),
)
