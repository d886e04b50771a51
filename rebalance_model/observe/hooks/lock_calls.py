"""Fold the locks and unlocks of queues (LOCK_BATCH_MQ, UNLOCK_BATCH_MQ): who holds an ordered queue."""

from rebalance_model.broker.consumer_manage_processor import SUCCESS
from rebalance_model.broker.rebalance_lock_manager import RebalanceLockManager
from rebalance_model.observe.events import LockBatchMq, UnlockBatchMq
from rebalance_model.observe.group import rebalances
from rebalance_model.observe.hooks import commits, holders, lock_requests, offset_queries
from rebalance_model.observe.state import BrokerView, HookView
from rebalance_model.observe.step import GroupStep


def fold_lock(step: GroupStep, view: BrokerView, hook: HookView, event: LockBatchMq) -> None:
    """Apply the broker's answer: granted queues are held, and refused ones are not this client's.

    A client that shuts down while it rebalances is granted locks after it has unregistered. They stay in the broker's
    table until they expire, but nobody has these queues: a process that later joins with that id requests them again.
    """
    offset_queries.note_channel(step, view, hook, event.channel, event.client_id)
    if event.code != SUCCESS:
        return
    if step.state.orderly is None:
        step.state.orderly = step.group_touched = True
    refused_before = lock_requests.refused_before(step, event)
    lock_requests.note(step, hook, event)
    granted = event.granted if event.client_id not in hook.recent_unregisters else ()
    taken = [mq for mq in granted if lock_requests.is_taken(step, mq, event.client_id)]
    if step.state.unsettled:
        step.queues_to_judge |= dict.fromkeys(mq for mq in event.granted if step.is_unsettled(mq))
    going_on = step.state.episode is not None
    holders.hold(step, hook, event.client_id, taken, "LOCK_GRANTED")
    step.group_touched = step.group_touched or not lock_requests.is_renewal(step, event, taken)
    for mq in granted:
        commits.begin(step, mq, step.hook_view(mq), event.time)
    if step.state.episode is not None and not going_on:
        for mq in refused_before[:1]:
            rebalances.open_or_extend(step, "LOCK_RETRY", str(mq), client_id=event.client_id)


def fold_unlock(step: GroupStep, view: BrokerView, hook: HookView, event: UnlockBatchMq) -> None:
    """Apply the release of queues by the client that holds them."""
    offset_queries.note_channel(step, view, hook, event.channel, event.client_id)
    for mq in event.queues if hook.lost_locks else ():
        lock_requests.drop_lost_lock(step, event.broker, hook, mq, event.client_id)
    held = [mq for mq in event.queues if lock_requests.gives_up(step, hook, mq, event.client_id)]
    RebalanceLockManager(mq_lock_table={event.group: hook.locks}).unlock_batch(event.group, held, event.client_id)
    holders.hold(step, hook, None, held, "UNLOCKED")
