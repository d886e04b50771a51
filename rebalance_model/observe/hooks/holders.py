"""Record which client holds a queue.

The holder of an ordered queue is the client whose lock was granted last. The holder of a concurrent queue is the client
that last queried its offset (`offset_queries`), or, where none is known, the one that pulls it (`pulls`).
"""

from collections.abc import Iterable

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.group import former_holder, ownership
from rebalance_model.observe.hooks import commits, released_queues
from rebalance_model.observe.state import HookView
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
            former_holder.keep(step, mq, hook_view, unlocked=evidence == "UNLOCKED")
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
