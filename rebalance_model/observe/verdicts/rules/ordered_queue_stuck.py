"""ORDERED_QUEUE_STUCK: an ordered queue has lag and its commit has not advanced for stuck_after.

The alert that this product exists for: `mqadmin consumerStatus` shows nothing of it. Judged at each answer of the
broker (GET_CONSUME_STATS), on covered time alone (`offsets`), and by its hook (`stall`), from which the lag may not be
known: then it is a warning, and of a queue that its topic seems to have lost (`given_up`) nothing is known. Clear when
the commit advances.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group import ghost_connections
from rebalance_model.observe.group.expectation import broadcasts
from rebalance_model.observe.hooks import given_up
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.polls.offsets import committed, lag_of
from rebalance_model.observe.polls.process_queue_view import ProcessQueueView
from rebalance_model.observe.state import HookQueue
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts import stall
from rebalance_model.observe.verdicts.ages import Ages, hook_lock
from rebalance_model.observe.verdicts.rules.queue_unassigned import GHOST_CONNECTION, ghost_evidence
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Severity, Verdict


def judge(turn: Turn, mq: MessageQueue) -> Verdict:
    """By how long the queue has waited; not known until that is long enough."""
    if broadcasts(turn.state):
        return CLEAR  # each client keeps its offsets itself: those of the broker are leftovers
    if not turn.state.orderly or mq.is_retry:
        return None
    waited = stall.of(turn, mq, turn.policy.stuck_after)
    if waited is None:
        return None
    if waited.ms <= turn.policy.stuck_after:
        return CLEAR if waited.moved else None
    if given_up.by_its_topic(turn, mq):
        return None
    severity: Severity = "warning" if waited.lag is None else "critical"
    return Holds(severity, _sub_cause(turn, mq, Ages.of(turn, mq)), turn.state.queues[mq].owner)


def evidence(turn: Turn, mq: MessageQueue) -> Evidence:
    """Lag, offsets, and what its owner last showed."""
    queue, ages = turn.state.queues[mq], Ages.of(turn, mq)
    found: Evidence = {
        "owner": queue.owner,
        "lag": lag_of(queue),
        "commit_offset": committed(turn, mq, queue),
        "broker_offset": queue.broker_offset,
        "stalled_ms": queue.stalled_ms,
        "limit_ms": turn.policy.stuck_after,
    }
    if (told := stall.by_hook(turn, mq)) is not None:
        found |= {"stalled_ms": max(told.ms, queue.stalled_ms), "lag_at_least": told.lag}
    if ages is not None:
        found |= {"lock_age_ms": ages.lock, "pull_age_ms": ages.pull, "consume_age_ms": ages.consume}
    if ages is not None and ages.queue is not None:
        found |= {
            "locked": ages.queue.locked,
            "cached_count": ages.queue.cached_count,
            "in_listener": ages.queue.transaction_count,
        }
    return found | ghost_evidence(turn, mq)


def _sub_cause(turn: Turn, mq: MessageQueue, ages: Ages | None) -> str:
    """The first that fits."""
    policy = turn.policy
    if ages is None:
        return _without_owner(turn, mq)
    if _is_unresponsive(turn, mq, ages):
        return "OWNER_UNRESPONSIVE"
    if ages.queue is not None and not ages.queue.locked:
        return "NOT_LOCKED"
    if ages.lock is not None and ages.lock > policy.client_lock_max_live_time:
        return "LOCK_EXPIRED"
    if ages.queue is None:
        return _of_hook(turn, mq, ages)
    return _of_answer(ages.queue, ages, policy)


def _is_unresponsive(turn: Turn, mq: MessageQueue, ages: Ages) -> bool:
    """Whether neither collector nor broker hears anything of the owner."""
    unanswered = turn.now - ages.client.answered > turn.policy.unresponsive_after
    if ages.client.answered and (ages.client.silent or not unanswered):
        return unanswered
    return stall.is_unresponsive(turn, mq)


def _of_hook(turn: Turn, mq: MessageQueue, ages: Ages) -> str:
    told = turn.state.queues[mq].hook
    if ages.lock is None and turn.live_hook(turn.state.views.get(mq.broker)) is not None:
        return "NOT_LOCKED"
    if told is not None and told.waiting_since and _has_held(turn, mq, told):
        return "LISTENER_BLOCKED"
    return "NOT_PULLING" if ages.pull is not None and ages.pull > turn.policy.pull_suspended_max else "UNDETERMINED"


def _has_held(turn: Turn, mq: MessageQueue, told: HookQueue) -> bool:
    """Whether the owner has had the queue for long enough to have consumed something of it."""
    hook = turn.live_hook(turn.state.views.get(mq.broker))
    return hook is not None and turn.now - told.holder_since > turn.policy.consume_frozen_after


def _of_answer(queue: ProcessQueueView, ages: Ages, policy: Policy) -> str:
    frozen = ages.consume is not None and ages.consume > policy.consume_frozen_after
    if frozen and queue.transaction_count > 0:
        return "LISTENER_HUNG"
    if not frozen and queue.cached_count + queue.transaction_count > 0:
        return "SUSPEND_LOOP"
    if queue.cached_count == 0 and ages.pull is not None and ages.pull > policy.pull_suspended_max:
        return "NOT_PULLING"
    return "UNDETERMINED"


def _without_owner(turn: Turn, mq: MessageQueue) -> str:
    if _lock_is_kept(turn, mq):
        return "OWNER_GONE_LOCK_HELD"
    kept = [q for c in turn.state.clients.values() if (q := c.queues.get(mq)) is not None and q.dropped]
    if not kept:
        return GHOST_CONNECTION if ghost_connections.leaves_unassigned(turn, mq) else "UNASSIGNED"
    return "UNLOCK_PENDING" if any(q.unlock_attempts for q in kept) else "ZOMBIE"


def _lock_is_kept(turn: Turn, mq: MessageQueue) -> bool:
    """Whether the broker still refuses the queue to everybody, for the sake of an owner that is no member any more."""
    entry = hook_lock(turn.state, mq)
    hook = turn.live_hook(turn.state.views.get(mq.broker))
    if entry is not None and hook is not None:
        age = turn.now - entry.last_update_timestamp
        return entry.client_id not in turn.state.members and age <= turn.policy.broker_lock_max_live_time
    free_at = turn.state.queues[mq].lock_free_at
    return free_at is not None and turn.now < free_at


RULE = Rule("ORDERED_QUEUE_STUCK", judge, evidence, absorbed_by=("BROKER_UNREACHABLE", "TELEMETRY_GAP"))
