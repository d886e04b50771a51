"""Fold the queries of offsets (QUERY_CONSUMER_OFFSET), and record which client holds a queue.

A client that makes a process queue begins with that call. It names no client: its channel does, once a heartbeat or
another call came on it. Until then a query waits.

The holder of an ordered queue is the client whose lock was granted last. The holder of a concurrent queue is the client
that last queried its offset, or, where none is known, the one that pulls it (`hook`).
"""

from collections.abc import Iterable

from rebalance_model.broker.broker_config import QUERY_NOT_FOUND
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import QueryConsumerOffset
from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.group import jumps, ownership, rebalances, retaken, skipped
from rebalance_model.observe.group.ghost_connections import client_of_channel, name_channel
from rebalance_model.observe.hooks import commits, released_queues
from rebalance_model.observe.state import BrokerView, HookView
from rebalance_model.observe.step import GroupStep


def hold(step: GroupStep, hook: HookView, client_id: str | None, queues: Iterable[MessageQueue], evidence: str) -> None:
    """Record that a client holds queues from now on, or that nobody does (None), and how that is known."""
    queues = list(queues)
    if not queues:
        return
    for mq in queues:
        hook_view = step.hook_view(mq)
        if client_id is not None:
            released_queues.note_read(step, mq)
        if hook_view.waiting_since and client_id is not None:
            released_queues.forget_wait(step, QueueFacts.of(step.facts, mq), hook_view)
        if hook_view.holder != client_id:
            ownership.keep(step, mq, hook_view, unlocked=evidence == "UNLOCKED")
            commits.take(hook_view, client_id, step.now)
        hook_view.observed_at = step.now
    first_sight = step.now < hook.complete_at
    ownership.reconsider(step, queues, evidence="FIRST_SEEN" if first_sight else evidence)


def is_locked(step: GroupStep, hook: HookView, mq: MessageQueue) -> bool:
    """Return whether the holder of the queue is the one that has its lock."""
    return mq in hook.locks or bool(step.state.orderly)


def has_living_lock(step: GroupStep, hook: HookView, mq: MessageQueue, client_id: str, now: int) -> bool:
    """Return whether the client's last granted lock is still valid by its own limit."""
    entry = hook.locks.get(mq)
    if entry is None or entry.client_id != client_id:
        return False
    return not entry.is_expired(now, step.policy.client_lock_max_live_time)


def fold_query(step: GroupStep, view: BrokerView, hook: HookView, event: QueryConsumerOffset) -> None:
    """Fold the query of a queue's offset."""
    mq = MessageQueue(event.topic, event.broker, event.queue_id)
    client_id = client_of_channel(view, hook, event.channel)
    if event.code == QUERY_NOT_FOUND:
        step.hook_view(mq).not_found_at = event.time
    if (queue := step.state.queues.get(mq)) is not None and queue.hook_view is not None:
        queue.hook_view.asked_at = event.time
    if client_id is None:
        hook.unattributed_queries.setdefault(event.channel, {})[mq] = event.time
    else:
        _begin(step, hook, client_id, {mq: event.time})


def note_channel(step: GroupStep, view: BrokerView, hook: HookView, channel: str, client_id: str) -> None:
    """Record the channel of a client that a call names, whether it has sent a heartbeat or not."""
    if channel in view.info.channel_info_table:
        return  # the usual case
    name_channel(view, client_id, channel)
    if channel not in view.info.channel_info_table and client_id in step.state.members:
        hook.client_by_channel[channel] = client_id
        attribute(step, hook, channel, client_id)


def attribute(step: GroupStep, hook: HookView, channel: str, client_id: str) -> None:
    """Attribute the queries of an unknown channel to the client that is now known to use it."""
    if (queries := hook.unattributed_queries.pop(channel, None)) is not None:
        _begin(step, hook, client_id, queries)


def _begin(step: GroupStep, hook: HookView, client_id: str, queues: dict[MessageQueue, int]) -> None:
    """Record that a client makes process queues; for ordered queues it has the locks already, which decide."""
    consumed = {mq: _consumed_to(step, hook, mq, client_id, asked) for mq, asked in queues.items()}
    for mq in queues:
        jumps.note_taken(step, mq, hook, step.hook_view(mq))
    taken = [mq for mq in queues if not is_locked(step, hook, mq)]
    for mq in taken:
        _retake(step, mq, client_id, queues[mq])
    hold(step, hook, client_id, taken, "OFFSET_ASKED")
    for mq in taken:
        hook_view = step.hook_view(mq)
        hook_view.pull_time = queues[mq]
        hook_view.pull_offset = hook_view.start_offset = -1
    for mq, offset in consumed.items():
        step.hook_view(mq).consumed_to = offset


def _consumed_to(step: GroupStep, hook: HookView, mq: MessageQueue, client_id: str, asked: int) -> int:
    """Return up to where a queue was consumed when a client queries its offset; -1: unknown, or nothing is to be said.

    A client reads a retry topic from its beginning. If its channel was unknown, it has pulled since it asked.
    """
    hook_view = step.hook_view(mq)
    if mq.is_retry or asked < step.now:
        return -1
    if hook_view.not_found_at == asked:
        return skipped.consumed_to(step, mq, client_id)
    return jumps.consumed_to(step, hook, client_id, hook_view)


def _retake(step: GroupStep, mq: MessageQueue, client_id: str, now: int) -> None:
    """Record that a client that has pulled a queue queries its offset again: it has made a new process queue."""
    hook_view = step.hook_view(mq)
    if hook_view.holder != client_id:
        return
    retaken.note(step, mq, step.state.queues[mq], client_id, now)
    if hook_view.start_offset < 0:
        return
    ownership.keep(step, mq, hook_view)
    hook_view.begun_at = 0
    rebalances.note_retaken(step, mq, client_id, now)
