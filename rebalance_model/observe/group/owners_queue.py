"""Derive the process queue of a queue's owner: the latest stamps that telemetry allows.

Where the broker's hook reports, the lock's age is exact: by the broker's clock, from the last renewal that it granted.

By polls: while a client keeps answering, its ages are those of its last answer; they do not grow between answers. For
an unresponsive client (two consecutive requests unanswered, though its broker answers) nothing is known since its last
answer: it may have renewed and pulled until the first unanswered request, so its ages are counted from then, by the
collector's clock. (Ages counted from the last answer are too high: in the demo's capture, a client that renewed its
locks between its last answer and its freeze was reported as expired for the broker 20 s too early.) Of a client that
is listed on several channels nothing is known, however long it is unresponsive: the broker may query it on a dead
channel while it works on another one. Locks and pulls that the hook reports still count.
"""

from rebalance_model.broker.rebalance_lock_manager import LockEntry
from rebalance_model.client import ProcessQueue
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.facts.queue_facts import OwnersQueue, QueueFacts
from rebalance_model.observe.group.ghost_connections import is_listed_twice
from rebalance_model.observe.state import ClientView, HookQueueView, ProcessQueueView
from rebalance_model.observe.step import GroupStep


def owners_queue(step: GroupStep, q: QueueFacts) -> OwnersQueue | None:
    """Return the process queue of the queue's believed owner; None if it has none."""
    if q.owner is None or q.queue.owner is None:
        return None
    if q.queue.owner not in q.of_owner:
        q.of_owner[q.queue.owner] = _derive(step, q, q.owner)
    return q.of_owner[q.queue.owner]


def _derive(step: GroupStep, q: QueueFacts, client: ClientView) -> OwnersQueue:
    now, answer, entry = step.now, answered_queue(q.mq, q.seen, client), owners_lock(step, q)
    as_of = client.answered if answer is not None and not client.silent else now
    process_queue = _answered(step, q, client, answer)
    pull = process_queue.last_pull_timestamp
    if pull is None or client.silent:
        called = q.owner_pulled_at
        pull = as_of - now + called if called is not None else pull
    return OwnersQueue(
        last_lock_timestamp=min(entry.last_update_timestamp, now)
        if entry is not None
        else process_queue.last_lock_timestamp,
        last_pull_timestamp=pull,
        last_consume_timestamp=process_queue.last_consume_timestamp,
        client=client,
        answer=answer,
        as_of=as_of,
        lock_as_of=now if entry is not None else as_of,
        lock_is_exact=entry is not None,
    )


def _answered(step: GroupStep, q: QueueFacts, client: ClientView, answer: ProcessQueueView | None) -> ProcessQueue:
    """Return the queue with the latest stamps that the owner's answers, or their absence, allow."""
    if answer is None or (client.silent and is_listed_twice(step.state, q.queue.owner or "")):
        return ProcessQueue(None, None, None)
    return ProcessQueue.created(min(client.unanswered_since, step.now)) if client.silent else client.at_answer(answer)


def answered_queue(mq: MessageQueue, seen: HookQueueView | None, client: ClientView) -> ProcessQueueView | None:
    """Return the queue in its owner's last answer; None also if that may be a former process queue of the owner."""
    since = seen.observed_at if seen is not None else 0
    return client.queues.get(mq) if client.readable and client.asked_at_answer >= since else None


def owners_lock(step: GroupStep, q: QueueFacts) -> LockEntry | None:
    """Return the owner's lock by its broker's hook; None also if telemetry may lack a renewal."""
    hook, owner = q.hook, q.queue.owner
    if hook is None or q.calls is None or q.calls.holder != owner:
        return None  # a late hook shows a lock that its holder had before
    entry = hook.locks.get(q.mq)
    if entry is None or entry.client_id != owner:
        return None
    known_at = hook.covered_since + step.policy.client_lock_max_live_time
    if entry.last_update_timestamp < hook.covered_since and step.now <= known_at:
        step.schedule_check(known_at + 1)
        return None
    return entry
