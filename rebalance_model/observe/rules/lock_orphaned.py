"""LOCK_ORPHANED: the queue's next owner requests its lock and is refused in favor of a client that is gone.

A client that is killed unlocks nothing: the broker keeps its lock for 60 s after the last renewal, and only the clients
that it refuses learn of that. With the broker's hook: once a client has been refused for 5 s in favor of one that is
gone. By polls it is inferred: the former owner is gone, its lock has not expired, and the expected owner has had time
for a full rebalance and does not have the queue. Clear when the lock is granted or has expired, or no client requests
it any more.

It is not reported at the first refusal (as first designed), for two reasons. A client whose connection broke is not
listed until its next call, and still has its lock; if it only pulls, that call comes 3 s later
(PULL_TIME_DELAY_MILLS_WHEN_EXCEPTION), and it has to connect first. And clients that are shut down together take each
other's queues while they leave; a refused one is gone itself within two seconds. The time counts from when both are
true: at a start a client is refused for seconds in favor of one that has not rebalanced yet, and is a member.
"""

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.hooks.lock_requests import IN_A_ROW
from rebalance_model.observe.rules import concerns
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, Holds, QueueRule, Severity, Verdict
from rebalance_model.observe.step import GroupStep

BACK_WITHIN = 5_000
"""A client that has lost its connections reconnects within this time; milliseconds."""


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check the broker's refusals if calls show who has the lock; else infer from the vanished owner and its heir."""
    if q.mq.is_retry:
        return CLEAR
    empty_at = q.view.back_at if q.view is not None else 0  # a broker that restarts has no locks
    shows_holder = q.lock is not None or q.watched_since <= max(q.queue.released_at or step.now, empty_at)
    return _by_calls(step, q) if shows_holder else _inferred(step, q)


def evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return the holder, the age of its lock, and the clients that request it."""
    queue, entry, seen = q.queue, q.lock, q.seen
    if entry is None or seen is None:
        return {
            "former_owner": queue.former_owner,
            "expected_owner": queue.expected_owner,
            "lock_free_at": queue.lock_free_at,
        }
    return {
        "holder": entry.client_id,
        "lock_age_ms": step.now - entry.last_update_timestamp,
        "broker_limit_ms": step.policy.broker_lock_max_live_time,
        "asked_by": ", ".join(sorted(seen.refusals)),
        "refusals": sum(each.count for each in seen.refusals.values()),
    }


def _by_calls(step: GroupStep, q: QueueFacts) -> Verdict:
    refusals, entry = q.calls.refusals if q.calls is not None else {}, q.lock
    now, members = step.now, step.facts.members
    refused_since = [a.first for client_id, a in refusals.items() if client_id in members and now - a.last <= IN_A_ROW]
    if not refused_since or entry is None or step.state.views[q.mq.broker].lists(entry.client_id):
        return CLEAR
    limit = step.policy.broker_lock_max_live_time
    if entry.is_expired(now, limit):
        return CLEAR  # the next client that requests the lock gets it
    step.schedule_check(entry.last_update_timestamp + limit + 1)
    orphaned_since = max(min(refused_since), entry.last_update_timestamp)
    return Holds(_severity(step, q, now - orphaned_since), client_id=entry.client_id)


def _inferred(step: GroupStep, q: QueueFacts) -> Verdict:
    queue, now = q.queue, step.now
    free_at, gone_at = queue.lock_free_at, queue.released_at
    if queue.owner is not None or queue.former_owner in step.facts.members or free_at is None or gone_at is None:
        return CLEAR
    if now >= free_at:
        return CLEAR
    step.schedule_check(free_at)
    expected = step.state.clients.get(queue.expected_owner or "")
    expected_since = max(gone_at, step.state.expected_at)
    if expected is None or expected.asked_at_answer - expected_since <= step.policy.rebalance_wait_interval:
        return None
    return Holds(_severity(step, q, now - gone_at), "INFERRED", queue.former_owner, duration_ms=now - gone_at)


def _severity(step: GroupStep, q: QueueFacts, orphaned_ms: int) -> Severity:
    limit = step.policy.orphaned_critical_after
    if not q.queue.lag and not (q.seen is not None and q.seen.waiting_since):
        return "warning"
    if orphaned_ms > limit:
        return "critical"
    step.schedule_check(step.now + limit + 1 - orphaned_ms)
    return "warning"


RULE = QueueRule(
    "LOCK_ORPHANED",
    judge,
    evidence,
    title="A client that is gone holds the lock of {subject}",
    units={
        "former_owner": "text",
        "expected_owner": "text",
        "lock_free_at": "epoch_ms",
        "holder": "text",
        "lock_age_ms": "ms",
        "broker_limit_ms": "ms",
        "asked_by": "text",
        "refusals": "count",
    },
    sub_causes=("", "INFERRED"),
    concerns=concerns.LOCK_REFUSED | concerns.UNASSIGNED,
    open_after=lambda _: BACK_WITHIN,
    absorbed_by=("REBALANCE_STORM",),
    advice={
        "": Advice(
            what=(
                "The holder of the queue's lock is gone without unlocking, and the next owner is refused: the queue "
                "is not consumed."
            ),
            first_step=(
                "Wait for the lock to expire (60 s after its last renewal); stop consumers by shutdown(), not SIGKILL."
            ),
            inspect=("MEMBERS",),
        ),
        "INFERRED": Advice(
            short="by what the clients answer",
            what="The former owner is gone, its lock has probably not expired, and the next owner lacks the queue.",
            first_step=(
                "Wait for the lock to expire (60 s after its last renewal); stop consumers by shutdown(), not SIGKILL."
            ),
            inspect=("MEMBERS",),
        ),
    },
)
