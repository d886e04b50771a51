"""LOCK_EXPIRED: the owner of an ordered queue has not renewed its lock; the client refuses to consume it.

With the broker's hook, the age is measured by the broker's clock. By polls, it is taken from one answer, or, for an
owner that stopped answering, from the time since (`owners_queue`). Clear at a renewal, a release, or when any client
is granted the lock.

No client can renew while the broker is away (BROKER_UNREACHABLE or BROKER_LOCKS_LOST reports that): after its return,
each client first gets one interval to renew (`lock_interval`).
"""

from rebalance_model.observe.group.expectation import broadcasts
from rebalance_model.observe.group.owners_queue import owners_queue
from rebalance_model.observe.queue_subject import OwnersQueue, QueueSubject
from rebalance_model.observe.rules import concerns, unresponsive
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, Holds, QueueRule, Severity, Verdict
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, q: QueueSubject) -> Verdict:
    """Check the age of the owner's lock."""
    held, policy = owners_queue(step, q), step.policy
    if held is None or broadcasts(step.state):  # a BROADCASTING consumer locks nothing
        return CLEAR
    renewed = held.last_lock_timestamp
    if renewed is None or q.mq.is_retry or not (held.client.orderly or held.lock_is_exact):
        return None
    is_expired = held.is_lock_expired(held.lock_as_of, policy.client_lock_max_live_time)
    is_free = held.is_lock_expired(held.lock_as_of, policy.broker_lock_max_live_time)
    if _goes_on(held) and not is_free:
        next_limit = policy.broker_lock_max_live_time if is_expired else policy.client_lock_max_live_time
        step.schedule_check(renewed + next_limit + 1)
    if is_expired and _has_just_come_back(step, q, held):
        return None
    if is_expired:
        owner = q.queue.owner
        severity: Severity = "critical" if is_free else "warning"
        return Holds(severity, client_id=owner, explained_by=unresponsive.causes_of(step, q.mq.broker, owner))
    return None if held.client.silent and not held.lock_is_exact else CLEAR


def _goes_on(held: OwnersQueue) -> bool:
    """Return whether the age of the lock increases without another event."""
    return held.lock_is_exact or held.client.silent


def _has_just_come_back(step: GroupStep, q: QueueSubject, held: OwnersQueue) -> bool:
    """Return whether the owner may not have had time to renew since the broker came back."""
    view = q.view
    due = view.back_at + step.policy.lock_interval if view is not None and view.back_at else 0
    if not _goes_on(held):
        return held.client.asked_at_answer <= due  # judged at the answer: the next one decides
    if step.now > due:
        return False
    step.schedule_check(due + 1)
    return True


def evidence(step: GroupStep, q: QueueSubject) -> Evidence:
    """Return the owner, the age of its lock and the limits (ms)."""
    held = owners_queue(step, q)
    found: Evidence = {"owner": q.queue.owner}
    if held is not None:
        found |= {
            "lock_age_ms": held.lock_ms,
            "limit_ms": step.policy.client_lock_max_live_time,
            "broker_limit_ms": step.policy.broker_lock_max_live_time,
            "silent": held.client.silent,
        }
    return found


RULE = QueueRule(
    "LOCK_EXPIRED",
    judge,
    evidence,
    title="The lock of {subject} has expired",
    units={"owner": "text", "lock_age_ms": "ms", "limit_ms": "ms", "broker_limit_ms": "ms", "silent": "flag"},
    concerns=concerns.LOCK_OLD,
    needs=("ANSWERS",),
    advice={
        "": Advice(
            what=(
                "The owner has not renewed its queue lock: it refuses to consume, and past the broker's limit any "
                "member may take the queue."
            ),
            first_step="Check whether the owner's process is paused, out of CPU, or cut off from the broker's master.",
            inspect=("THREADS",),
        ),
    },
)
