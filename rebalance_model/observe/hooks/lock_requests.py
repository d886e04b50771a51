"""What asking for queue locks shows: who is refused and for how long, who takes from whom, what a restart has lost."""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import LockBatchMq
from rebalance_model.observe.identity import stable_id
from rebalance_model.observe.state import HookQueue, HookView, LostLock, Refusals
from rebalance_model.observe.turn import Turn

IN_A_ROW = 45_000
"""A client that wants a queue asks every second, before RocketMQ 5.2 every 20 s; milliseconds."""
ASKERS_MAX = 8
TAKERS_KEPT = 4


def note(turn: Turn, hook: HookView, event: LockBatchMq) -> None:
    """Take the broker's answer, before the lock table takes it."""
    for mq in event.granted:
        if not mq.is_retry:
            _grant(turn, hook, mq, event)
    granted = frozenset(event.granted)
    for mq in event.requested:
        if mq not in granted and not mq.is_retry:
            _refuse(turn, hook, mq, event)


def note_restart(turn: Turn, broker: str, hook: HookView) -> None:
    """The broker has forgotten its locks; those who had them believe in them still."""
    for mq, entry in hook.locks.items():
        if not mq.is_retry and entry.client_id in turn.state.members:
            hook.lost_locks[mq] = LostLock(entry.client_id, entry.last_update_timestamp)
            turn.hook_queue(mq).refusals = {}
    turn.brokers_to_judge[broker] = None


def give_up(turn: Turn, broker: str, hook: HookView, mq: MessageQueue, client_id: str) -> None:
    """The client does not believe any more that it has the lock."""
    lost = hook.lost_locks.get(mq)
    if lost is not None and lost.client_id == client_id:
        del hook.lost_locks[mq]
        turn.brokers_to_judge[broker] = None


def _grant(turn: Turn, hook: HookView, mq: MessageQueue, event: LockBatchMq) -> None:
    if hook.lost_locks:
        give_up(turn, event.broker, hook, mq, event.client_id)
        if mq in hook.lost_locks:
            turn.brokers_to_judge[event.broker] = None
    told = turn.hook_queue(mq)
    if told.takers and told.takers[-1][0] == event.client_id:
        told.refusals.pop(event.client_id, None)
        return
    told.refusals = {}
    listed = sorted(set(turn.state.views[event.broker].info.client_ids()))  # this broker's: others have other clocks
    told.takers = (*told.takers, (event.client_id, event.time, stable_id(*listed)))[-TAKERS_KEPT:]
    turn.queues_to_judge[mq] = None


def _refuse(turn: Turn, hook: HookView, mq: MessageQueue, event: LockBatchMq) -> None:
    if hook.lost_locks:
        give_up(turn, event.broker, hook, mq, event.client_id)
    told = turn.hook_queue(mq)
    asked = told.refusals.get(event.client_id)
    if asked is not None and event.time - asked.last <= IN_A_ROW:
        asked.last, asked.count = event.time, asked.count + 1
    else:
        asked = _keep(told, event.client_id, event.time)
    entry = hook.locks.get(mq)
    if entry is not None and entry.client_id not in turn.state.members:
        asked.orphaned, asked.kept = event.time, 0
    else:
        asked.kept += 1
    turn.queues_to_judge[mq] = None


def _keep(told: HookQueue, client_id: str, now: int) -> Refusals:
    asked = told.refusals[client_id] = Refusals(now, now)
    if len(told.refusals) > ASKERS_MAX:
        del told.refusals[min(told.refusals, key=lambda c: told.refusals[c].last)]
    return asked
