"""LOCK_EXPIRED: the owner of an ordered queue has not renewed its lock; the client refuses to consume it.

With the broker's hook, the age is measured by the broker's clock. By polls, it is taken from one answer, or, for an
owner that stopped answering, from the time since (`owners_queue`). Clear at a renewal, a release, or when any client
is granted the lock.

No client can renew while the broker is away (BROKER_UNREACHABLE or BROKER_LOCKS_LOST reports that): after its return,
each client first gets one interval to renew (`lock_interval`).
"""

from rebalance_model.observe.facts.queue_facts import OwnersQueue, QueueFacts
from rebalance_model.observe.group.owners_queue import owners_queue
from rebalance_model.observe.rules import concerns, unresponsive
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, Holds, QueueRule, Severity, Verdict
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check the age of the owner's lock."""
    process_queue, policy = owners_queue(step, q), step.policy
    if process_queue is None or step.facts.broadcasts:  # a BROADCASTING consumer locks nothing
        return CLEAR
    renewed = process_queue.last_lock_timestamp
    if renewed is None or q.mq.is_retry or not (process_queue.client.orderly or process_queue.lock_is_exact):
        return None
    is_expired = process_queue.is_lock_expired(process_queue.lock_as_of, policy.client_lock_max_live_time)
    is_free = process_queue.is_lock_expired(process_queue.lock_as_of, policy.broker_lock_max_live_time)
    if _goes_on(process_queue) and not is_free:
        next_limit = policy.broker_lock_max_live_time if is_expired else policy.client_lock_max_live_time
        step.schedule_check(renewed + next_limit + 1)
    if is_expired and _has_just_come_back(step, q, process_queue):
        return None
    if is_expired:
        owner = q.queue.owner
        severity: Severity = "critical" if is_free else "warning"
        return Holds(severity, client_id=owner, explained_by=unresponsive.causes_of(step, q.mq.broker, owner))
    return None if process_queue.client.silent and not process_queue.lock_is_exact else CLEAR


def _goes_on(process_queue: OwnersQueue) -> bool:
    """Return whether the age of the lock increases without another event."""
    return process_queue.lock_is_exact or process_queue.client.silent


def _has_just_come_back(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue) -> bool:
    """Return whether the owner may not have had time to renew since the broker came back."""
    view = q.view
    due = view.back_at + step.policy.lock_interval if view is not None and view.back_at else 0
    if not _goes_on(process_queue):
        return process_queue.client.asked_at_answer <= due  # judged at the answer: the next one decides
    if step.now > due:
        return False
    step.schedule_check(due + 1)
    return True


def evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return the owner, the age of its lock and the limits (ms)."""
    process_queue = owners_queue(step, q)
    fields: Evidence = {"owner": q.queue.owner}
    if process_queue is not None:
        fields |= {
            "lock_age_ms": process_queue.lock_ms,
            "limit_ms": step.policy.client_lock_max_live_time,
            "broker_limit_ms": step.policy.broker_lock_max_live_time,
            "silent": process_queue.client.silent,
        }
    return fields


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
