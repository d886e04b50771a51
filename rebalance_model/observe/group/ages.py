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
from rebalance_model.observe.state import ClientView, GroupState, ProcessQueueView
from rebalance_model.observe.step import Ages, GroupStep


def ages_of(step: GroupStep, mq: MessageQueue) -> Ages | None:
    """Return the ages for the queue's believed owner; None if it has none."""
    if step.judged is not mq:
        return _ages_of(step, mq)
    if step.ages is None:
        step.ages = (_ages_of(step, mq),)
    return step.ages[0]


def _ages_of(step: GroupStep, mq: MessageQueue) -> Ages | None:
    state = step.state
    known = state.queues.get(mq)
    client = state.clients.get(known.owner) if known is not None and known.owner is not None else None
    if known is None or client is None:
        return None
    since = known.hook_view.observed_at if known.hook_view is not None else 0
    is_current = client.readable and client.asked_at_answer >= since  # else it may be a former process queue
    queue = client.queues.get(mq) if is_current else None
    exact = _hook_age(step, mq, known.owner)
    lock, pull, consume = _polled(client, queue, step.now)
    if client.silent and is_listed_twice(state, known.owner or ""):
        lock = pull = consume = None
    if pull is None or client.silent:
        hook_pull_age = hook_pull(step, mq)
        pull = hook_pull_age if hook_pull_age is not None else pull
    if exact is not None:
        return Ages(client, queue, exact, lock_is_exact=True, goes_on=True, pull=pull, consume=consume)
    return Ages(client, queue, lock, lock_is_exact=False, goes_on=client.silent, pull=pull, consume=consume)


def hook_lock(state: GroupState, mq: MessageQueue) -> LockEntry | None:
    """Return the broker's lock of the queue, by its hook; an expired lock stays in the table, as in the broker's."""
    view = state.views.get(mq.broker)
    return view.hook.locks.get(mq) if view is not None and view.hook is not None else None


def _hook_age(step: GroupStep, mq: MessageQueue, owner: str | None) -> int | None:
    """Return the lock's age (ms); None also if a renewal may be missing from the telemetry."""
    entry, hook_view = hook_lock(step.state, mq), step.state.queues[mq].hook_view
    if entry is None or entry.client_id != owner or hook_view is None or hook_view.holder != owner:
        return None  # a late hook shows a lock that its holder had before
    hook = step.live_hook(step.state.views.get(mq.broker))
    if hook is None:
        return None
    now, renewed = step.now, entry.last_update_timestamp
    known_at = hook.covered_since + step.policy.client_lock_max_live_time
    if renewed < hook.covered_since and now <= known_at:
        step.schedule_check(known_at + 1)
        return None
    return max(0, now - renewed)


def hook_pull(step: GroupStep, mq: MessageQueue) -> int | None:
    """Return the time since the owner last pulled, or took the queue, by the broker's clock; milliseconds."""
    queue = step.state.queues[mq]
    hook_view, hook = queue.hook_view, step.live_hook(step.state.views.get(mq.broker))
    if hook is None or hook_view is None or hook_view.holder != queue.owner or not hook_view.holder_since:
        return None
    return max(0, step.now - max(hook_view.pull_time, hook_view.holder_since, hook.covered_since))


def _polled(client: ClientView, queue: ProcessQueueView | None, now: int) -> tuple[int | None, int | None, int | None]:
    if queue is None:
        return None, None, None
    if client.silent:
        silence = max(0, now - client.unanswered_since)
        return silence, silence, silence
    return client.age_of(queue.lock), client.age_of(queue.pull), client.age_of(queue.consume)
