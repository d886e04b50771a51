"""ORDERED_QUEUE_STUCK: an ordered queue has lag and its commit has not advanced for stuck_after.

The alert that this product exists for: `mqadmin consumerStatus` shows nothing of it. Judged at each answer of the
broker (GET_CONSUME_STATS), on covered time alone (`offsets`); clear when the commit advances.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.ages import Ages, hook_lock
from rebalance_model.observe.offsets import lag_of
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, mq: MessageQueue) -> Verdict:
    """By how long the queue has waited; not known until that is long enough."""
    queue = turn.state.queues[mq]
    if not turn.state.orderly or mq.is_retry or lag_of(queue) is None or queue.stats_at != turn.now:
        return None  # the cause is named anew only with the proof that it still stands
    if queue.stalled_ms <= turn.policy.stuck_after:
        return CLEAR if queue.stalled_ms == 0 else None
    return Holds("critical", _sub_cause(turn, mq, Ages.of(turn, mq)), queue.owner)


def evidence(turn: Turn, mq: MessageQueue) -> Evidence:
    """Lag, offsets, and what its owner last showed."""
    queue, ages = turn.state.queues[mq], Ages.of(turn, mq)
    found: Evidence = {
        "owner": queue.owner,
        "lag": lag_of(queue),
        "commit_offset": queue.commit_offset,
        "broker_offset": queue.broker_offset,
        "stalled_ms": queue.stalled_ms,
        "limit_ms": turn.policy.stuck_after,
    }
    if ages is not None:
        found |= {"lock_age_ms": ages.lock, "pull_age_ms": ages.pull, "consume_age_ms": ages.consume}
    if ages is not None and ages.queue is not None:
        found |= {
            "locked": ages.queue.locked,
            "cached_count": ages.queue.cached_count,
            "in_listener": ages.queue.transaction_count,
        }
    return found


def _sub_cause(turn: Turn, mq: MessageQueue, ages: Ages | None) -> str:
    """The first that fits."""
    policy = turn.policy
    if ages is None:
        return _without_owner(turn, mq)
    if ages.client.silent and turn.now - ages.client.answered > policy.unresponsive_after:
        return "OWNER_UNRESPONSIVE"
    if ages.queue is not None and not ages.queue.locked:
        return "NOT_LOCKED"
    if ages.lock is not None and ages.lock > policy.client_lock_max_live_time:
        return "LOCK_EXPIRED"
    return _of_answer(ages, policy)


def _of_answer(ages: Ages, policy: Policy) -> str:
    queue, consume, pull = ages.queue, ages.consume, ages.pull
    if queue is None or consume is None or pull is None:
        return "UNDETERMINED"
    frozen = consume > policy.consume_frozen_after
    if frozen and queue.transaction_count > 0:
        return "LISTENER_HUNG"
    if not frozen and queue.cached_count + queue.transaction_count > 0:
        return "SUSPEND_LOOP"
    if queue.cached_count == 0 and pull > policy.pull_suspended_max:
        return "NOT_PULLING"
    return "UNDETERMINED"


def _without_owner(turn: Turn, mq: MessageQueue) -> str:
    if _lock_is_kept(turn, mq):
        return "OWNER_GONE_LOCK_HELD"
    kept = [q for c in turn.state.clients.values() if (q := c.queues.get(mq)) is not None and q.dropped]
    if not kept:
        return "UNASSIGNED"
    return "UNLOCK_PENDING" if any(q.unlock_attempts for q in kept) else "ZOMBIE"


def _lock_is_kept(turn: Turn, mq: MessageQueue) -> bool:
    """Whether the broker still refuses the queue to everybody, for the sake of an owner that is no member any more."""
    entry = hook_lock(turn.state, mq)
    hook = turn.live_hook(turn.state.views.get(mq.broker))
    if entry is not None and hook is not None:
        age = turn.clock_of(hook) - entry.last_update_timestamp
        return entry.client_id not in turn.state.members and age <= turn.policy.broker_lock_max_live_time
    free_at = turn.state.queues[mq].lock_free_at
    return free_at is not None and turn.now < free_at


RULE = Rule("ORDERED_QUEUE_STUCK", judge, evidence, absorbed_by=("BROKER_UNREACHABLE", "TELEMETRY_GAP"))
