"""Fold the locks and unlocks of queues (LOCK_BATCH_MQ, UNLOCK_BATCH_MQ): who holds an ordered queue.

Also which client is refused and for how long, lock handovers, and locks lost by a restart.
"""

from collections.abc import Collection, Iterable

from rebalance_model.broker.broker_config import SUCCESS
from rebalance_model.broker.rebalance_lock_manager import LockEntry, RebalanceLockManager
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import stable_id
from rebalance_model.observe.events import LockBatchMq, UnlockBatchMq
from rebalance_model.observe.group import rebalances
from rebalance_model.observe.hooks import commits, offset_queries
from rebalance_model.observe.state import BrokerView, HookQueueView, HookView, Refusals
from rebalance_model.observe.step import GroupStep

IN_A_ROW = 45_000
"""A client that wants a queue sends a request every second, before RocketMQ 5.2 every 20 s; milliseconds."""
ASKERS_MAX = 8
"""At most this many refused clients of a queue are kept, the last ones."""
HANDOVERS_KEPT = 4
"""At most this many lock handovers of a queue are kept."""


def fold_lock(step: GroupStep, view: BrokerView, hook: HookView, event: LockBatchMq) -> None:
    """Apply the broker's answer: granted queues are held, and refused ones are not this client's.

    A client that shuts down while it rebalances is granted locks after it has unregistered. They stay in the broker's
    table until they expire, but nobody has these queues: a process that later joins with that id requests them again.
    """
    offset_queries.note_channel(step, view, hook, event.channel, event.client_id)
    if event.code != SUCCESS:
        return
    if step.state.orderly is None:
        step.state.orderly = True
        step.changed("REPORT")
    refused = refused_before(step, event)
    note(step, hook, event)
    granted = event.granted if event.client_id not in hook.recent_unregisters else ()
    taken = [mq for mq in granted if is_taken(step, mq, event.client_id)]
    if step.state.unsettled:
        step.queues_to_judge |= dict.fromkeys(mq for mq in event.granted if step.is_unsettled(mq))
    going_on = step.state.episode is not None
    if taken:
        offset_queries.hold(step, hook, event.client_id, taken, "LOCK_GRANTED")
    if not is_renewal(step, event, taken):
        step.changed("REPORT")
    for mq in granted:
        commits.begin(step, mq, step.hook_view(mq), event.time)
    if step.state.episode is not None and not going_on:
        for mq in refused[:1]:
            rebalances.open_or_extend(step, "LOCK_RETRY", str(mq), client_id=event.client_id)


def fold_unlock(step: GroupStep, view: BrokerView, hook: HookView, event: UnlockBatchMq) -> None:
    """Apply the release of queues by the client that holds them."""
    offset_queries.note_channel(step, view, hook, event.channel, event.client_id)
    for mq in event.queues if hook.lost_locks else ():
        drop_lost_lock(step, event.broker, hook, mq, event.client_id)
    held = [mq for mq in event.queues if gives_up(step, hook, mq, event.client_id)]
    RebalanceLockManager(mq_lock_table={event.group: hook.locks}).unlock_batch(event.group, held, event.client_id)
    offset_queries.hold(step, hook, None, held, "UNLOCKED")


def note(step: GroupStep, hook: HookView, event: LockBatchMq) -> None:
    """Record the broker's answer, and update the lock table by it."""
    handed_over = {mq: None for mq in event.granted if not mq.is_retry and _grant(step, hook, mq, event)}
    if handed_over:
        _note_handovers(step, handed_over, event)
    granted = frozenset(event.granted)
    for mq in event.requested:
        if mq in granted:
            continue
        if not mq.is_retry:
            _refuse(step, hook, mq, event)
        if (entry := hook.locks.get(mq)) is not None and entry.client_id == event.client_id:
            del hook.locks[mq]
    hook.locks |= {mq: LockEntry(event.client_id, event.time) for mq in event.granted}


def is_renewal(step: GroupStep, event: LockBatchMq, taken: Collection[MessageQueue]) -> bool:
    """Return whether the client has renewed its locks, which changes nothing of a group that is polled."""
    is_granted = len(event.granted) == len(event.requested)
    return is_granted and not taken and step.state.is_polled and bool(step.state.members)


def is_taken(step: GroupStep, mq: MessageQueue, client_id: str) -> bool:
    """Return whether the client did not have the queue until now, by the hook or by answers."""
    queue = step.state.queues.get(mq)
    return queue is None or queue.hook_view is None or queue.hook_view.holder != client_id or queue.owner is None


def gives_up(step: GroupStep, hook: HookView, mq: MessageQueue, client_id: str) -> bool:
    """Return whether an unlock releases the queue: its client has the lock, or owns it by one that a restart lost."""
    entry = hook.locks.get(mq)
    if entry is not None:
        return entry.client_id == client_id
    queue = step.state.queues.get(mq)
    return queue is not None and queue.owner == client_id


def refused_before(step: GroupStep, event: LockBatchMq) -> list[MessageQueue]:
    """Return the queues whose lock was refused to the client until now."""
    queues, refused = step.state.queues, []
    for mq in event.granted:
        queue = queues.get(mq)
        if queue is not None and queue.hook_view is not None and event.client_id in queue.hook_view.refusals:
            refused.append(mq)
    return refused


def note_restart(step: GroupStep, broker: str, hook: HookView) -> None:
    """Record that the broker has lost its locks; their holders still rely on them."""
    for mq, entry in hook.locks.items():
        if not mq.is_retry and entry.client_id in step.facts.members:
            hook.lost_locks[mq] = entry
            step.hook_view(mq).refusals = {}
    step.brokers_to_judge[broker] = None


def drop_lost_lock(step: GroupStep, broker: str, hook: HookView, mq: MessageQueue, client_id: str) -> None:
    """Record that the client no longer believes that it has the lock."""
    lost = hook.lost_locks.get(mq)
    if lost is not None and lost.client_id == client_id:
        del hook.lost_locks[mq]
        step.brokers_to_judge[broker] = None


def _grant(step: GroupStep, hook: HookView, mq: MessageQueue, event: LockBatchMq) -> bool:
    """Record a granted lock; return whether another client had it last."""
    if hook.lost_locks:
        drop_lost_lock(step, event.broker, hook, mq, event.client_id)
        if mq in hook.lost_locks:
            step.brokers_to_judge[event.broker] = None
    hook_view = step.hook_view(mq)
    if hook_view.lock_handovers and hook_view.lock_handovers[-1][0] == event.client_id:
        hook_view.refusals.pop(event.client_id, None)
        return False
    hook_view.refusals = {}
    return True


def _note_handovers(step: GroupStep, queues: Iterable[MessageQueue], event: LockBatchMq) -> None:
    """Record that the client is granted the locks of queues that it did not have, and by which list of members."""
    listed = sorted(set(step.state.views[event.broker].info.client_ids()))  # of this broker: others have other clocks
    handover = (event.client_id, event.time, stable_id(*listed))
    for mq in queues:
        hook_view = step.hook_view(mq)
        hook_view.lock_handovers = (*hook_view.lock_handovers, handover)[-HANDOVERS_KEPT:]
        step.queues_to_judge[mq] = None


def _refuse(step: GroupStep, hook: HookView, mq: MessageQueue, event: LockBatchMq) -> None:
    if hook.lost_locks:
        drop_lost_lock(step, event.broker, hook, mq, event.client_id)
    hook_view = step.hook_view(mq)
    refusals = hook_view.refusals.get(event.client_id)
    if refusals is not None and event.time - refusals.last <= IN_A_ROW:
        refusals.last, refusals.count = event.time, refusals.count + 1
    else:
        refusals = _first_refusal(hook_view, event.client_id, event.time)
    entry = hook.locks.get(mq)
    if entry is not None and entry.client_id not in step.facts.members:
        refusals.orphaned, refusals.kept = event.time, 0
    else:
        refusals.kept += 1
    step.queues_to_judge[mq] = None


def _first_refusal(hook_view: HookQueueView, client_id: str, now: int) -> Refusals:
    refusals = hook_view.refusals[client_id] = Refusals(now, now)
    if len(hook_view.refusals) > ASKERS_MAX:
        del hook_view.refusals[min(hook_view.refusals, key=lambda c: hook_view.refusals[c].last)]
    return refusals
