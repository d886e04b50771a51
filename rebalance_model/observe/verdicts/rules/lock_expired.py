"""LOCK_EXPIRED: an ordered queue whose owner has not renewed its lock; the client refuses to consume it.

With the broker's hook judged by the broker's clock; by polls within one answer, or, for an owner that is silent, by how
long it has been (`ages`). Clear at a renewal, a release, or when the queue is granted to anyone.

Nobody could renew at a broker that was away, and BROKER_UNREACHABLE or BROKER_LOCKS_LOST has told that: when it is back
every client has its next turn first (`lock_interval`).
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.ages import Ages
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, mq: MessageQueue) -> Verdict:
    """By the age of the owner's lock."""
    ages = Ages.of(turn, mq)
    if ages is None:
        return CLEAR
    if ages.lock is None or mq.is_retry or not (ages.client.orderly or ages.lock_is_exact):
        return None
    limits = (turn.policy.client_lock_max_live_time, turn.policy.broker_lock_max_live_time)
    if ages.goes_on and ages.lock <= limits[1]:
        next_limit = limits[0] if ages.lock <= limits[0] else limits[1]
        turn.schedule_check(turn.now + next_limit + 1 - ages.lock)
    if ages.lock > limits[0] and _has_just_come_back(turn, mq, ages):
        return None
    if ages.lock > limits[0]:
        return Holds("critical" if ages.lock > limits[1] else "warning", client_id=turn.state.queues[mq].owner)
    return None if ages.client.silent and not ages.lock_is_exact else CLEAR


def _has_just_come_back(turn: Turn, mq: MessageQueue, ages: Ages) -> bool:
    """Whether the owner may not have had its turn between the broker's return and what is known of it."""
    view = turn.state.views.get(mq.broker)
    due = view.back_at + turn.policy.lock_interval if view is not None and view.back_at else 0
    if not ages.goes_on:
        return ages.client.asked_at_answer <= due  # judged at the answer: the next one will tell
    if turn.now > due:
        return False
    turn.schedule_check(due + 1)
    return True


def evidence(turn: Turn, mq: MessageQueue) -> Evidence:
    """Age and limits."""
    ages = Ages.of(turn, mq)
    found: Evidence = {"owner": turn.state.queues[mq].owner}
    if ages is not None:
        found |= {
            "lock_age_ms": ages.lock,
            "limit_ms": turn.policy.client_lock_max_live_time,
            "broker_limit_ms": turn.policy.broker_lock_max_live_time,
            "silent": ages.client.silent,
        }
    return found


RULE = Rule("LOCK_EXPIRED", judge, evidence)
