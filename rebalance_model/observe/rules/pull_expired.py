"""PULL_EXPIRED: a push client has not pulled from its queue for longer than pullMaxIdleTime.

The client repairs that itself at its next rebalance (it drops and re-acquires the queue), so in polls it shows for at
most 20 s. Clear when a pull is seen or another client gets the queue.

If the client answers, its own timestamp counts. That timestamp advances while the client holds back (flow control, no
lock), but the broker then sees no pull. So by the hook alone the verdict is unknown for a queue with so many cached
messages that the client may hold back, for a queue committed beyond what its master served (a slave serves it), and for
a queue that its owner has released without a call (`released_queues`).

A pull that the broker answers with an error is a pull, too (PULL_REFUSED): so a member that comes back after its pulls
were refused has not stopped.

SUSPENDED: messages wait, the client's timestamp is fresh and it has no message, and the broker sees no pull.

If both sources report, the answer is up to a poll interval old and its timestamp a lower bound, while the hook is
exact. So if the answer's age equals the hook's within two intervals, the hook's age counts.
"""

from rebalance_model.broker.consumer_manager import SCAN_PERIOD
from rebalance_model.observe.group.ages import ages_of, hook_pull
from rebalance_model.observe.group.expectation import group_info
from rebalance_model.observe.group.member_types import PUSH, consume_type_of
from rebalance_model.observe.group.offsets import lag_of
from rebalance_model.observe.hooks import pull_errors, released_queues
from rebalance_model.observe.queue_subject import QueueSubject
from rebalance_model.observe.rules import concerns, pull_stall, unresponsive
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, Holds, QueueRule, Verdict
from rebalance_model.observe.state import HookQueueView
from rebalance_model.observe.step import Ages, GroupStep


def judge(step: GroupStep, q: QueueSubject) -> Verdict:
    """Check the age of the owner's last pull."""
    ages = ages_of(step, q)
    if ages is None:
        return CLEAR
    error = pull_errors.error_of(step, q)
    if error is not None:
        step.schedule_check(error.last + pull_errors.REPEATED_WITHIN + 1)
        return CLEAR
    info = group_info(step.state)
    if ages.pull is None or q.mq.is_retry or info is None:
        return None
    if (ages.client.consume_type or consume_type_of(step.state, info)) != PUSH:
        return None
    if ages.queue is None:
        return _by_hook(step, q, ages, ages.pull)
    return _by_answer(step, q, ages, ages.pull)


def _by_answer(step: GroupStep, q: QueueSubject, ages: Ages, age: int) -> Verdict:
    if _is_suspended(step, q, ages):
        return Holds("warning", "SUSPENDED", q.queue.owner)
    limit = _limit(step, ages)
    if age > limit:
        return _expired(step, q)
    if ages.client.silent:
        step.schedule_check(step.now + limit + 1 - age)
        return None
    pull = _exact_age(step, q, ages)
    by_hook = _by_hook(step, q, ages, pull) if pull is not None else None
    return by_hook or CLEAR


def _expired(step: GroupStep, q: QueueSubject) -> Holds:
    owner = q.queue.owner
    return Holds("critical", client_id=owner, explained_by=unresponsive.causes_of(step, q.mq.broker, owner))


def _is_suspended(step: GroupStep, q: QueueSubject, ages: Ages) -> bool:
    """Return whether messages wait, the client stamps its pulls, and the broker has seen none for `stuck_after`."""
    queue, pull = q.queue, hook_pull(step, q)
    if pull is None or pull <= step.policy.pull_max_idle_time or not lag_of(queue) or not queue.stalled_ms:
        return False
    return pull_stall.cause_of(step, q, ages) == "SUSPENDED"


def _limit(step: GroupStep, ages: Ages) -> int:
    """Return how long the owner may not have pulled, milliseconds.

    For a silent owner the limit lasts until an answer after the broker's scan still lists it. A client that is cut off
    or frozen is dropped 120 to 130 s after its last heartbeat: until then nothing shows that it will stay without
    pulling.
    """
    limit = step.policy.pull_max_idle_time
    return limit + SCAN_PERIOD + step.policy.poll_interval if ages.client.silent else limit


def _exact_age(step: GroupStep, q: QueueSubject, ages: Ages) -> int | None:
    """Return the age by the hook if the client's timestamp, aged since its answer, agrees: then it sees all pulls.

    None if it does not agree, or the client is silent or has not answered for this queue.
    """
    client, queue, pull = ages.client, ages.queue, hook_pull(step, q)
    tolerance = 2 * step.policy.poll_interval
    answered = client.age_of(queue.pull) if queue is not None else None
    if answered is None or client.silent or pull is None or pull + tolerance <= step.policy.pull_max_idle_time:
        return None
    return pull if answered + step.now - client.asked_at_answer + tolerance >= pull else None


def _by_hook(step: GroupStep, q: QueueSubject, ages: Ages, pull: int) -> Verdict:
    hook_view, hook = q.seen, q.hook
    limit = step.policy.pull_max_idle_time
    if (
        hook_view is None
        or hook is None
        or not _should_pull(step, hook_view, ages)
        or released_queues.is_released_by_owner(step, q)
    ):
        return None
    if pull > limit:
        return _expired(step, q)
    now = step.now
    step.schedule_check(now + limit + 1 - pull)
    return CLEAR if now - max(hook_view.pull_time, hook_view.holder_since) <= limit else None


def _should_pull(step: GroupStep, hook_view: HookQueueView, ages: Ages) -> bool:
    """Return whether the client should pull at the master: neither cached messages nor a missing lock prevent it."""
    if step.state.orderly and not ages.lock_is_exact:
        return False
    if hook_view.start_offset < 0:
        return True  # it has not pulled yet
    ahead = hook_view.pull_offset - hook_view.commit_offset
    batch = step.policy.pull_batch_size
    return hook_view.commit_offset >= 0 and -batch <= ahead and ahead + batch < step.policy.pull_threshold_for_queue


def evidence(step: GroupStep, q: QueueSubject) -> Evidence:
    """Return the owner, the age of its last pull that was compared with the limit, and the limit (ms)."""
    ages = ages_of(step, q)
    found: Evidence = {"owner": q.queue.owner}
    if ages is not None:
        exact = hook_pull(step, q) if _is_suspended(step, q, ages) else _exact_age(step, q, ages)
        found |= {
            "pull_age_ms": ages.pull if exact is None else exact,
            "limit_ms": _limit(step, ages),
            "cached_count": ages.queue.cached_count if ages.queue is not None else None,
            "silent": ages.client.silent,
        }
    return found


RULE = QueueRule(
    "PULL_EXPIRED",
    judge,
    evidence,
    units={"owner": "text", "pull_age_ms": "ms", "limit_ms": "ms", "cached_count": "messages", "silent": "flag"},
    sub_causes=("", "SUSPENDED"),
    concerns=concerns.PULL_OLD | concerns.PULL_REFUSED,
    needs=("OWNERS",),
    advice={
        "": Advice(
            what=(
                "The owner has not pulled from this queue for longer than pullMaxIdleTime: its messages wait. A client "
                "that runs will drop and re-acquire the queue; one that is suspended keeps it."
            ),
            first_step=(
                "Check the owner's pullInterval, whether its pull thread is blocked, and whether it is suspended."
            ),
            inspect=("THREADS",),
        ),
        "SUSPENDED": pull_stall.ADVICE["SUSPENDED"],
    },
)
