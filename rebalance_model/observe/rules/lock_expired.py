"""LOCK_EXPIRED: the owner of an ordered queue has not renewed its lock; the client refuses to consume it.

With the broker's hook, the age is measured by the broker's clock. By polls, it is taken from one answer, or, for an
owner that stopped answering, from the time since (`ages`). Clear at a renewal, a release, or when any client is granted
the lock.

No client can renew while the broker is away (BROKER_UNREACHABLE or BROKER_LOCKS_LOST reports that): after its return,
each client first gets one interval to renew (`lock_interval`).
"""

from rebalance_model.observe.group.ages import ages_of
from rebalance_model.observe.group.expectation import broadcasts
from rebalance_model.observe.queue_subject import QueueSubject
from rebalance_model.observe.rules import concerns, unresponsive
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, Holds, QueueRule, Severity, Verdict
from rebalance_model.observe.step import Ages, GroupStep


def judge(step: GroupStep, q: QueueSubject) -> Verdict:
    """Check the age of the owner's lock."""
    ages = ages_of(step, q)
    if ages is None or broadcasts(step.state):  # a BROADCASTING consumer locks nothing
        return CLEAR
    if ages.lock is None or q.mq.is_retry or not (ages.client.orderly or ages.lock_is_exact):
        return None
    limits = (step.policy.client_lock_max_live_time, step.policy.broker_lock_max_live_time)
    if ages.goes_on and ages.lock <= limits[1]:
        next_limit = limits[0] if ages.lock <= limits[0] else limits[1]
        step.schedule_check(step.now + next_limit + 1 - ages.lock)
    if ages.lock > limits[0] and _has_just_come_back(step, q, ages):
        return None
    if ages.lock > limits[0]:
        owner = q.queue.owner
        severity: Severity = "critical" if ages.lock > limits[1] else "warning"
        return Holds(severity, client_id=owner, explained_by=unresponsive.causes_of(step, q.mq.broker, owner))
    return None if ages.client.silent and not ages.lock_is_exact else CLEAR


def _has_just_come_back(step: GroupStep, q: QueueSubject, ages: Ages) -> bool:
    """Return whether the owner may not have had time to renew since the broker came back."""
    view = q.view
    due = view.back_at + step.policy.lock_interval if view is not None and view.back_at else 0
    if not ages.goes_on:
        return ages.client.asked_at_answer <= due  # judged at the answer: the next one decides
    if step.now > due:
        return False
    step.schedule_check(due + 1)
    return True


def evidence(step: GroupStep, q: QueueSubject) -> Evidence:
    """Return the owner, the age of its lock and the limits (ms)."""
    ages = ages_of(step, q)
    found: Evidence = {"owner": q.queue.owner}
    if ages is not None:
        found |= {
            "lock_age_ms": ages.lock,
            "limit_ms": step.policy.client_lock_max_live_time,
            "broker_limit_ms": step.policy.broker_lock_max_live_time,
            "silent": ages.client.silent,
        }
    return found


RULE = QueueRule(
    "LOCK_EXPIRED",
    judge,
    evidence,
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
