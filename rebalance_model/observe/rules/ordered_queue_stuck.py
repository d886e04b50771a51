"""ORDERED_QUEUE_STUCK: an ordered queue has lag and its commit has not advanced for stuck_after.

The alert that this product exists for: `mqadmin consumerStatus` shows nothing of it. Judged at each answer of the
broker (GET_CONSUME_STATS), on covered time alone (`offsets`); clear when the commit advances.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.ages import Ages
from rebalance_model.observe.incidents import Clear, Holds, Verdict
from rebalance_model.observe.offsets import lag_of
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import GroupState

CODE = "ORDERED_QUEUE_STUCK"


def judge(state: GroupState, mq: MessageQueue, now: int, policy: Policy) -> Verdict:
    """The verdict on one queue at ``now``, by the collector's clock; None until it has waited long enough."""
    queue = state.queues[mq]
    lag = lag_of(queue)
    if not state.orderly or mq.is_retry or lag is None:
        return None
    if queue.stalled_ms <= policy.stuck_after and not state.incidents:
        return None  # nothing to open and nothing to resolve: the usual case
    ages = Ages.of(state, mq, now)
    evidence: dict[str, int | str | bool | None] = {
        "owner": queue.owner,
        "lag": lag,
        "commit_offset": queue.commit_offset,
        "broker_offset": queue.broker_offset,
        "stalled_ms": queue.stalled_ms,
        "limit_ms": policy.stuck_after,
    }
    if ages is not None:
        evidence |= {
            "locked": ages.queue.locked,
            "lock_age_ms": ages.lock,
            "pull_age_ms": ages.pull,
            "consume_age_ms": ages.consume,
            "cached_count": ages.queue.cached_count,
            "in_listener": ages.queue.transaction_count,
        }
    if queue.stalled_ms == 0:
        return Clear(evidence)
    if queue.stalled_ms <= policy.stuck_after:
        return None
    return Holds("critical", _sub_cause(state, mq, ages, now, policy), queue.owner, evidence)


def _sub_cause(state: GroupState, mq: MessageQueue, ages: Ages | None, now: int, policy: Policy) -> str:
    """The first that fits."""
    if ages is None:
        return _without_owner(state, mq, now)
    answered = ages.client.answered
    frozen = ages.consume > policy.consume_frozen_after
    fits = {
        "OWNER_UNRESPONSIVE": ages.client.silent and now - answered > policy.unresponsive_after,
        "NOT_LOCKED": not ages.queue.locked,
        "LOCK_EXPIRED": ages.lock > policy.client_lock_max_live_time,
        "LISTENER_HUNG": frozen and ages.queue.transaction_count > 0,
        "SUSPEND_LOOP": not frozen and ages.queue.cached_count + ages.queue.transaction_count > 0,
        "NOT_PULLING": ages.queue.cached_count == 0 and ages.pull > policy.pull_suspended_max,
    }
    return next((name for name, fit in fits.items() if fit), "UNDETERMINED")


def _without_owner(state: GroupState, mq: MessageQueue, now: int) -> str:
    free_at = state.queues[mq].lock_free_at
    if free_at is not None and now < free_at:
        return "OWNER_GONE_LOCK_HELD"
    kept = [q for c in state.clients.values() if (q := c.queues.get(mq)) is not None and q.dropped]
    if not kept:
        return "UNASSIGNED"
    return "UNLOCK_PENDING" if any(q.unlock_attempts for q in kept) else "ZOMBIE"
