"""PULL_EXPIRED: a push client has not pulled from its queue for longer than pullMaxIdleTime.

The client repairs that itself at its next rebalance (it drops and re-acquires the queue), so in polls it shows for at
most 20 s. Clear when a pull is seen or another client gets the queue. A new process queue of
the same client is no pull (RETAKEN, if it happens repeatedly).

If the client answers, its own timestamp counts. That timestamp advances while the client holds back (flow control, no
lock), but the broker then sees no pull. So by the hook alone the verdict is unknown for a queue with so many cached
messages that the client may hold back, for a queue committed beyond what its master served (a slave serves it), and for
a queue that its owner has released without a call (`released_queues`).

A pull that the broker answers with an error is a pull, too (PULL_REFUSED): so a member that comes back after its pulls
were refused has not stopped.

PULL_INTERVAL: the client declares a pullInterval longer than pullMaxIdleTime, which is the cause by itself.

SUSPENDED: messages wait, the client's timestamp is fresh and it has no message, and the broker sees no pull.

If both sources report, the answer is up to a poll interval old and its timestamp a lower bound, while the hook is
exact. So if the answer's age equals the hook's within two intervals, the hook's age counts.
"""

from msgspec.structs import replace

from rebalance_model.broker.consumer_manager import SCAN_PERIOD
from rebalance_model.observe.facts.queue_facts import OwnersQueue, QueueFacts
from rebalance_model.observe.group import retaken
from rebalance_model.observe.group.owners_queue import owners_queue
from rebalance_model.observe.hooks import pull_errors, released_queues
from rebalance_model.observe.rules import concerns, pull_stall, stall, unresponsive
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, Holds, QueueRule, Verdict
from rebalance_model.observe.state import PUSH, HookQueueView, IncidentKey, IncidentState
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check the age of the owner's last pull."""
    process_queue = owners_queue(step, q)
    error = pull_errors.error_of(step, q) if process_queue is not None else None
    if error is not None:
        step.schedule_check(error.over_at + 1)
    if process_queue is None or error is not None:
        return None if error is None and _may_be_taken_again(step, q) else CLEAR
    if process_queue.last_pull_timestamp is None or q.mq.is_retry or step.facts.info is None:
        return None
    if (process_queue.client.consume_type or step.facts.consume_type) != PUSH:
        return None
    if not _is_repaired(step, q, process_queue):
        return _not_repaired(step, q, process_queue)
    return (_by_calls if process_queue.answer is None else _by_answer)(step, q, process_queue)


def _may_be_taken_again(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the client that did not pull the queue has only just dropped it: it may take it again."""
    if retaken.is_again(step, q):
        return True
    queue, open_one = q.queue, _open(step, q)
    if open_one is None or open_one.client_id not in step.facts.members or queue.former_owner != open_one.client_id:
        return False
    due = (queue.released_at or 0) + step.policy.rebalance_wait_interval
    if step.now <= due:
        step.schedule_check(due + 1)
    return step.now <= due


def _open(step: GroupStep, q: QueueFacts) -> IncidentState | None:
    return step.state.incidents.get(IncidentKey(RULE.code, str(q)))


def _is_repaired(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue) -> bool:
    """Return whether the client that did not pull the queue has pulled it since; also if there is no incident of that.

    A new process queue has the stamp of a pull that did not happen: a pull after it shows in messages, in another
    stamp, or at the broker's hook.
    """
    incident, answer = _open(step, q), process_queue.answer
    if incident is None or incident.client_id != q.queue.owner:
        return True
    if q.calls is not None and q.calls.start_offset >= 0:
        return True
    if answer is None:
        return False
    pulled = answer.last_pull_timestamp
    return bool(answer.cached_count) or pulled is None or pulled > answer.made + retaken.MADE_WITHIN


def _by_answer(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue) -> Verdict:
    if _is_suspended(step, q, process_queue):
        return Holds("warning", "SUSPENDED", q.queue.owner)
    limit = _limit(step, process_queue)
    if process_queue.is_pull_expired(process_queue.as_of, limit):
        return _expired(step, q)
    if process_queue.client.silent:
        step.schedule_check((process_queue.last_pull_timestamp or 0) + limit + 1)
        return None
    exact = _exact(step, q, process_queue)
    by_calls = _by_calls(step, q, exact) if exact is not None else None
    return by_calls or CLEAR


def _not_repaired(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue) -> Verdict:
    if retaken.is_again(step, q):
        return _expired(step, q, stall.RETAKEN)
    limit = _limit(step, process_queue)
    return _expired(step, q) if process_queue.is_pull_expired(process_queue.as_of, limit) else None


def _expired(step: GroupStep, q: QueueFacts, sub_cause: str = "") -> Holds:
    """Return the verdict: one incident of a client's queues explains the others."""
    owner = q.queue.owner
    if stall.waits_too_long(step, q):
        sub_cause = stall.PULL_INTERVAL
    of_client = stall.of_same_client(step, RULE.code, q, ("", stall.RETAKEN, stall.PULL_INTERVAL))
    explained_by = (*unresponsive.causes_of(step, q.mq.broker, owner), *of_client)
    return Holds("critical", sub_cause, owner, explained_by=explained_by)


def _as_called(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue) -> OwnersQueue | None:
    """Return the owner's queue with the last pull that its calls show; None: they show none."""
    pulled = q.owner_pulled_at
    return replace(process_queue, last_pull_timestamp=pulled, as_of=step.now) if pulled is not None else None


def _is_suspended(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue) -> bool:
    """Return whether messages wait, the client stamps its pulls, and the broker has seen none for `stuck_after`."""
    queue, seen = q.queue, _as_called(step, q, process_queue)
    if seen is None or not seen.is_pull_expired(seen.as_of, step.policy.pull_max_idle_time):
        return False
    return bool(queue.lag and queue.stalled_ms) and pull_stall.cause_of(step, q, process_queue) == "SUSPENDED"


def _limit(step: GroupStep, process_queue: OwnersQueue) -> int:
    """Return how long the owner may not have pulled, milliseconds.

    For a silent owner the limit lasts until an answer after the broker's scan still lists it. A client that is cut off
    or frozen is dropped 120 to 130 s after its last heartbeat: until then nothing shows that it will stay without
    pulling.
    """
    limit = step.policy.pull_max_idle_time
    return limit + SCAN_PERIOD + step.policy.poll_interval if process_queue.client.silent else limit


def _exact(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue) -> OwnersQueue | None:
    """Return the hook's view of the queue if it agrees with the client's own timestamp: then the hook sees all pulls.

    None if it does not agree, or the client is silent or has not answered for this queue.
    """
    client, answer, seen = process_queue.client, process_queue.answer, _as_called(step, q, process_queue)
    pulled = client.at_answer(answer).last_pull_timestamp if answer is not None else None
    if pulled is None or client.silent or seen is None:
        return None
    tolerance = 2 * step.policy.poll_interval
    if not seen.is_pull_expired(seen.as_of, step.policy.pull_max_idle_time - tolerance):
        return None
    answered_ms = client.answered - pulled + step.now - client.asked_at_answer
    return seen if answered_ms + tolerance >= (seen.pull_ms or 0) else None


def _by_calls(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue) -> Verdict:
    seen, limit = q.calls, step.policy.pull_max_idle_time
    if seen is None or not _should_pull(step, seen, process_queue) or released_queues.is_released_by_owner(step, q):
        return None
    if process_queue.is_pull_expired(process_queue.as_of, limit):
        return _expired(step, q)
    step.schedule_check((process_queue.last_pull_timestamp or 0) + limit + 1)
    return CLEAR if step.now - max(seen.pull_time, seen.holder_since) <= limit else None


def _should_pull(step: GroupStep, hook_view: HookQueueView, process_queue: OwnersQueue) -> bool:
    """Return whether the client should pull at the master: neither cached messages nor a missing lock prevent it."""
    if step.state.orderly and not process_queue.lock_is_exact:
        return False
    if hook_view.start_offset < 0:
        return True  # it has not pulled yet
    ahead = hook_view.pull_offset - hook_view.commit_offset
    batch, limit = step.facts.pull_batch(hook_view.holder), step.facts.pull_threshold(hook_view.holder)
    return hook_view.commit_offset >= 0 and -batch <= ahead and ahead + batch < limit


def evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return the owner, the age of its last pull that was compared with the limit, and the limit (ms)."""
    process_queue = owners_queue(step, q)
    fields: Evidence = {"owner": q.queue.owner}
    if process_queue is not None:
        exact = (
            _as_called(step, q, process_queue)
            if _is_suspended(step, q, process_queue)
            else _exact(step, q, process_queue)
        )
        fields |= {
            "pull_age_ms": (exact or process_queue).pull_ms,
            "limit_ms": _limit(step, process_queue),
            "cached_count": process_queue.answer.cached_count if process_queue.answer is not None else None,
            "silent": process_queue.client.silent,
        }
    return fields


RULE = QueueRule(
    "PULL_EXPIRED",
    judge,
    evidence,
    title="The owner of {subject} has stopped pulling",
    units={"owner": "text", "pull_age_ms": "ms", "limit_ms": "ms", "cached_count": "messages", "silent": "flag"},
    sub_causes=("", "RETAKEN", "SUSPENDED", stall.PULL_INTERVAL),
    concerns=concerns.PULL_OLD | concerns.PULL_REFUSED,
    needs=("OWNERS",),
    advice={
        "": Advice(
            what=(
                "The owner has not pulled from this queue for longer than pullMaxIdleTime: its messages wait. A client "
                "that runs will drop and re-acquire the queue; one that is suspended or holds back keeps it."
            ),
            first_step=(
                "Check the owner's pullInterval, whether its pull thread is blocked, and whether it is suspended or "
                "holds back (flow control in its log)."
            ),
            inspect=("THREADS",),
        ),
        stall.RETAKEN: stall.RETAKEN_ADVICE,
        stall.PULL_INTERVAL: stall.ADVICE[stall.PULL_INTERVAL],
        "SUSPENDED": pull_stall.ADVICE["SUSPENDED"],
    },
)
