"""Compute the minimum age of the stamps of a queue's owner.

Where the broker's hook reports, the lock's age is exact: by the broker's clock, from the last renewal that it granted.

By polls: while a client keeps answering, its ages are those of its last answer; they do not grow between answers. For
an unresponsive client (two consecutive requests unanswered, though its broker answers) nothing is known since its last
answer: it may have renewed and pulled until the first unanswered request, so its ages are counted from then, by the
collector's clock. (Ages counted from the last answer are too high: in the demo's capture, a client that renewed its
locks between its last answer and its freeze was reported as expired for the broker 20 s too early.) Of a client that
is listed on several channels nothing is known, however long it is unresponsive: the broker may query it on a dead
channel while it works on another one. What the hook reports of its locks and pulls counts all the same.
"""

from rebalance_model.broker.rebalance_lock_manager import LockEntry
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group.ghost_connections import is_listed_twice
from rebalance_model.observe.queue_subject import QueueSubject
from rebalance_model.observe.state import ClientView, GroupState, ProcessQueueView
from rebalance_model.observe.step import Ages, GroupStep


def ages_of(step: GroupStep, q: QueueSubject) -> Ages | None:
    """Return the ages for the queue's believed owner; None if it has none."""
    if q.ages is None:
        q.ages = (_ages_of(step, q),)
    return q.ages[0]


def _ages_of(step: GroupStep, q: QueueSubject) -> Ages | None:
    client = q.owner
    if client is None:
        return None
    queue, exact = answered_queue(q, client), hook_lock_age(step, q)
    lock, pull, consume = _polled(client, queue, step.now)
    if client.silent and is_listed_twice(step.state, q.queue.owner or ""):
        lock = pull = consume = None
    if pull is None or client.silent:
        hook_pull_age = hook_pull(step, q)
        pull = hook_pull_age if hook_pull_age is not None else pull
    if exact is not None:
        return Ages(client, queue, exact, lock_is_exact=True, goes_on=True, pull=pull, consume=consume)
    return Ages(client, queue, lock, lock_is_exact=False, goes_on=client.silent, pull=pull, consume=consume)


def answered_queue(q: QueueSubject, client: ClientView) -> ProcessQueueView | None:
    """Return the queue in its owner's last answer; None also if that may be a former process queue of the owner."""
    since = q.seen.observed_at if q.seen is not None else 0
    return client.queues.get(q.mq) if client.readable and client.asked_at_answer >= since else None


def hook_lock(state: GroupState, mq: MessageQueue) -> LockEntry | None:
    """Return the broker's lock of the queue, by its hook; an expired lock stays in the table, as in the broker's."""
    view = state.views.get(mq.broker)
    return view.hook.locks.get(mq) if view is not None and view.hook is not None else None


def hook_lock_age(step: GroupStep, q: QueueSubject) -> int | None:
    """Return the age of the owner's lock by its broker's hook (ms); None also if telemetry may lack a renewal."""
    hook, seen, owner = q.hook, q.seen, q.queue.owner
    if hook is None or seen is None or seen.holder != owner:
        return None  # a late hook shows a lock that its holder had before
    entry = hook.locks.get(q.mq)
    if entry is None or entry.client_id != owner:
        return None
    now, renewed = step.now, entry.last_update_timestamp
    known_at = hook.covered_since + step.policy.client_lock_max_live_time
    if renewed < hook.covered_since and now <= known_at:
        step.schedule_check(known_at + 1)
        return None
    return max(0, now - renewed)


def hook_pull(step: GroupStep, q: QueueSubject) -> int | None:
    """Return the time since the owner last pulled, or took the queue, by the broker's clock; milliseconds."""
    hook, seen = q.hook, q.seen
    if hook is None or seen is None or seen.holder != q.queue.owner or not seen.holder_since:
        return None
    return max(0, step.now - max(seen.pull_time, seen.holder_since, hook.covered_since))


def _polled(client: ClientView, queue: ProcessQueueView | None, now: int) -> tuple[int | None, int | None, int | None]:
    if queue is None:
        return None, None, None
    if client.silent:
        silence = max(0, now - client.unanswered_since)
        return silence, silence, silence
    return client.age_of(queue.lock), client.age_of(queue.pull), client.age_of(queue.consume)
