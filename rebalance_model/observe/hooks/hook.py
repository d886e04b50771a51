"""What a broker's hook tells of a group: members, locks, pulls and commits, as they happen.

Who has a queue, by the broker's own word: of an ordered queue the client whose lock was granted last; of another the
client that last asked where to begin (QUERY_CONSUMER_OFFSET), since that is what making a process queue begins with.
Pulls alone name a holder only where none is known (of an ordered queue: who still has its lock), or where the known
one has not pulled for long: two clients pull one queue in turn until both have rebalanced, and the sum of the former
owner's last second comes after the heir's question.

Slaves are heartbeaten too, but hand out neither locks nor member lists: of what their hooks tell only the pulls count.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from rebalance_model.broker.consumer_group_info import ClientChannelInfo, ConsumerData, ConsumerGroupInfo
from rebalance_model.broker.consumer_manage_processor import SUCCESS, SYSTEM_ERROR
from rebalance_model.broker.rebalance_lock_manager import LockEntry, RebalanceLockManager
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    GetConsumerListByGroup,
    HeartBeat,
    HookEvent,
    LockBatchMq,
    PullMessage,
    QueryConsumerOffset,
    UnlockBatchMq,
    UnregisterClient,
    UpdateConsumerOffset,
    source_of,
)
from rebalance_model.observe.group import causes, ownership, rebalances, subscriptions
from rebalance_model.observe.group.membership import Before, follow
from rebalance_model.observe.hooks import broker_view, commits, given_up, heartbeats, lock_requests
from rebalance_model.observe.hooks.broker_view import speaker, subscription_table
from rebalance_model.observe.state import BrokerView, HookView, Rival
from rebalance_model.observe.turn import Turn

News: TypeAlias = Literal["FIRST", "NEXT", "GAP", "RESTART"]
"""How an event continues what its source has told of the group."""

HEARD_FROM_ALL = 35_000
"""Every member has heartbeaten within so long (heartbeatBrokerInterval is 30 s); milliseconds."""
PULL_SILENCE = 30_000
"""A client that has a queue pulls it, or is known to hold back, within so long."""


def fold_hook(turn: Turn, event: HookEvent, news: News) -> None:
    """Fold one event of a master's hook."""
    if event.broker_id:
        _note_slave(turn, event)
        return
    view, hook = _view_of(turn, event, news)
    _fold(turn, view, hook, event)
    if hook.lost_locks and turn.group_to_judge:  # who has left believes in no lock any more
        turn.brokers_to_judge[event.broker] = None
    turn.schedule_check(turn.now + turn.policy.client_lock_max_live_time + 1)  # before that nothing is due


def _note_slave(turn: Turn, event: HookEvent) -> None:
    """A slave serves the queue in its master's place: whoever has it pulls there, by another connection."""
    if isinstance(event, PullMessage) and turn.live_hook(turn.state.views.get(event.broker)) is not None:
        queue = turn.state.queues.get(MessageQueue(event.topic, event.broker, event.queue_id))
        if queue is not None and queue.hook is not None:
            queue.hook.pull_time = turn.now
            if not turn.state.orderly and queue.hook.holder is not None:
                commits.begin(turn, MessageQueue(event.topic, event.broker, event.queue_id), queue.hook, turn.now)


def restart(turn: Turn, broker: str, view: BrokerView, hook: HookView) -> None:
    """A broker that restarts has no member and no lock; its clients go on, and come back with their next heartbeat.

    The offsets are those that it had stored last, up to 5 s old: not known until the next commit.
    """
    before, now = Before(turn.state, broker), turn.now
    for mq, queue in turn.state.queues.items():
        if mq.broker == broker and queue.hook is not None:
            commits.note_restart(turn, mq, queue.hook)
    lock_requests.note_restart(turn, broker, hook)
    hook.returning = dict.fromkeys(before.ids or (), now + HEARD_FROM_ALL)
    view.info = ConsumerGroupInfo()
    hook.locks, hook.speakers, hook.waiting, hook.doubts, hook.heartbeats = {}, {}, {}, (), {}
    hook.complete_at = hook.covered_since = view.back_at = now
    turn.schedule_check(now + HEARD_FROM_ALL)
    rebalances.open_or_extend(turn, "BROKER_RESTARTED", broker, client_id=None)
    rebalances.interrupt_all(turn, broker)
    follow(turn, before, first_sight=False)


def scan(turn: Turn, broker: str, view: BrokerView, hook: HookView) -> None:
    """Do what time alone does in the broker's view, and say when to look again."""
    state, now = turn.state, turn.now
    before = Before(state, broker)
    broker_view.scan(view, state.group, now)
    hook.returning = {c: until for c, until in hook.returning.items() if until > now}
    hook.goodbyes = {c: at for c, at in hook.goodbyes.items() if now - at <= HEARD_FROM_ALL}
    hook.waiting = {channel: mqs for channel, mqs in hook.waiting.items() if now - max(mqs.values()) <= HEARD_FROM_ALL}
    heartbeats.note_listed(hook, view.info.client_ids(), now)
    follow(turn, before, first_sight=False)
    hook.speakers = {channel: c for channel, c in hook.speakers.items() if c in state.members}
    hook.restless = {c: asking for c, asking in hook.restless.items() if c in state.members}
    dues = [*hook.returning.values(), *(max(mqs.values()) + HEARD_FROM_ALL + 1 for mqs in hook.waiting.values())]
    if (expiry := broker_view.next_expiry(view)) is not None:
        dues.append(expiry)
    if dues:
        turn.schedule_check(min(dues))


def _fold(turn: Turn, view: BrokerView, hook: HookView, event: HookEvent) -> None:
    """The most frequent first."""
    if isinstance(event, PullMessage):
        _pull(turn, view, hook, event)
    elif isinstance(event, UpdateConsumerOffset):
        _commit(turn, view, hook, event)
    elif isinstance(event, LockBatchMq):
        _lock(turn, view, hook, event)
    elif isinstance(event, HeartBeat):
        _heart_beat(turn, view, hook, event)
    elif isinstance(event, GetConsumerListByGroup):
        _list(turn, view, hook, event)
    elif isinstance(event, QueryConsumerOffset):
        _query(turn, view, hook, event)
    elif isinstance(event, UnlockBatchMq):
        _unlock(turn, view, hook, event)
    else:
        _unregister(turn, view, hook, event)


def _view_of(turn: Turn, event: HookEvent, news: News) -> tuple[BrokerView, HookView]:
    state = turn.state
    view = state.views.get(event.broker)
    if view is None:
        view = state.views[event.broker] = BrokerView(ConsumerGroupInfo(), asked=0)
    hook = view.hook
    if hook is None:
        from_boot = event.seq == 1
        view.told_by = source_of(event)
        hook = view.hook = HookView(view.told_by, event.time if from_boot else event.time + HEARD_FROM_ALL)
        for info in view.info.channel_info_table.values():
            info.last_update_timestamp = event.time  # a poll named it: no age is known
    if news == "RESTART":
        restart(turn, event.broker, view, hook)
    if news == "GAP":
        hook.lost_at = event.time
        turn.brokers_to_judge[event.broker] = None
    if news != "NEXT" or not hook.covered_since:
        hook.covered_since = event.time
    return view, hook


def _heart_beat(turn: Turn, view: BrokerView, hook: HookView, event: HeartBeat) -> None:
    if event.code != SUCCESS:
        return
    before = Before(turn.state, event.broker, by=event.client_id)
    client = ClientChannelInfo(event.channel, event.client_id, event.language, event.version, event.time)
    data = ConsumerData(
        group_name=event.group,
        consume_type=event.consume_type,
        message_model=event.message_model,
        consume_from_where=event.consume_from_where,
        subscription_data_set=tuple(subscription_table(event.subscriptions).values()),
    )
    broker_view.register(view, client, data, without_sub=event.without_sub)
    heartbeats.note(hook, event.client_id, event.channel, event.time, turn.policy)
    hook.goodbyes.pop(event.client_id, None)
    hook.returning.pop(event.client_id, None)
    hook.speakers.pop(event.channel, None)
    turn.clients_to_judge[event.client_id] = None
    follow(turn, before, first_sight=event.time < hook.complete_at)
    if not event.without_sub:
        subscriptions.hear(turn, event.client_id, event.subscriptions)
    _credit(turn, hook, event.channel, event.client_id)


def _unregister(turn: Turn, view: BrokerView, hook: HookView, event: UnregisterClient) -> None:
    if event.code != SUCCESS:
        return
    before = Before(turn.state, event.broker)
    broker_view.unregister(view, event.group, event.channel, event.client_id)
    heartbeats.forget(hook, event.client_id, event.channel)
    hook.goodbyes[event.client_id] = event.time
    hook.returning.pop(event.client_id, None)
    follow(turn, before, first_sight=False)


def _list(turn: Turn, view: BrokerView, hook: HookView, event: GetConsumerListByGroup) -> None:
    if event.code not in (SUCCESS, SYSTEM_ERROR):  # SYSTEM_ERROR: nobody is there
        return
    before = Before(turn.state, event.broker)
    broker_view.take_list(view, event.consumer_ids, event.asked or event.time, event.time, hook.goodbyes)
    heartbeats.note_listed(hook, view.info.client_ids(), event.time)
    causes.note_asking(turn, hook, speaker(view, hook, event.channel), event.time)
    first_sight = event.time < hook.complete_at
    hook.complete_at = min(hook.complete_at, event.time)
    follow(turn, before, first_sight=first_sight)


def _lock(turn: Turn, view: BrokerView, hook: HookView, event: LockBatchMq) -> None:
    """The broker's answer is the truth: what it granted is held, and what it refused is not this client's."""
    _speaks(turn, view, hook, event.channel, event.client_id)
    if event.code != SUCCESS:
        return
    if turn.state.orderly is None:
        turn.state.orderly = True
    refused_before = _was_refused(turn, event)
    lock_requests.note(turn, hook, event)
    taken = [mq for mq in event.granted if _is_taken(turn, mq, event.client_id)]
    hook.locks |= {mq: LockEntry(event.client_id, event.time) for mq in event.granted}
    for mq in set(event.requested).difference(event.granted):
        if (entry := hook.locks.get(mq)) is not None and entry.client_id == event.client_id:
            del hook.locks[mq]
    turn.queues_to_judge |= dict.fromkeys(mq for mq in event.granted if turn.is_unsettled(mq))
    going_on = turn.state.episode is not None
    _hold(turn, hook, event.client_id, taken, "LOCK_GRANTED")
    for mq in event.granted:
        commits.begin(turn, mq, turn.hook_queue(mq), event.time)
    if turn.state.episode is not None and not going_on:
        for mq in refused_before[:1]:
            rebalances.open_or_extend(turn, "LOCK_RETRY", str(mq), client_id=event.client_id)


def _is_taken(turn: Turn, mq: MessageQueue, client_id: str) -> bool:
    """Whether the client has not had the queue until now, by the hook's word or by anybody's."""
    queue = turn.state.queues.get(mq)
    return queue is None or queue.hook is None or queue.hook.holder != client_id or queue.owner is None


def _was_refused(turn: Turn, event: LockBatchMq) -> list[MessageQueue]:
    """Queues whose lock was kept from the client until now."""
    queues = ((mq, turn.state.queues.get(mq)) for mq in event.granted)
    return [mq for mq, queue in queues if queue and queue.hook and event.client_id in queue.hook.refusals]


def _unlock(turn: Turn, view: BrokerView, hook: HookView, event: UnlockBatchMq) -> None:
    _speaks(turn, view, hook, event.channel, event.client_id)
    for mq in event.queues if hook.lost_locks else ():
        lock_requests.give_up(turn, event.broker, hook, mq, event.client_id)
    held = [mq for mq in event.queues if (entry := hook.locks.get(mq)) and entry.client_id == event.client_id]
    RebalanceLockManager(mq_lock_table={event.group: hook.locks}).unlock_batch(event.group, held, event.client_id)
    _hold(turn, hook, None, held, "UNLOCKED")


def _query(turn: Turn, view: BrokerView, hook: HookView, event: QueryConsumerOffset) -> None:
    mq = MessageQueue(event.topic, event.broker, event.queue_id)
    client_id = speaker(view, hook, event.channel)
    if (queue := turn.state.queues.get(mq)) is not None and queue.hook is not None:
        queue.hook.asked_at = event.time
    if client_id is None:
        hook.waiting.setdefault(event.channel, {})[mq] = event.time
    else:
        _begin(turn, hook, client_id, {mq: event.time})


def _pull(turn: Turn, view: BrokerView, hook: HookView, event: PullMessage) -> None:
    """The commit comes last: it is that of the last of these pulls, and they began before it."""
    mq = MessageQueue(event.topic, event.broker, event.queue_id)
    client_id = speaker(view, hook, event.channel)
    commits.note_former(turn, mq, client_id, event)
    if client_id is not None and client_id in turn.state.members:
        _pull_of(turn, hook, mq, client_id, event)
    if event.commit_offset >= 0 and event.code in (None, SUCCESS):  # a pull that is refused commits nothing
        commit = commits.Commit(event.commit_offset, event.last_time, client_id, event.channel, carried=True)
        commits.note_commit(turn, mq, commit)


def _pull_of(turn: Turn, hook: HookView, mq: MessageQueue, client_id: str, event: PullMessage) -> None:
    told = turn.hook_queue(mq)
    if client_id != told.holder and _is_locked(turn, hook, mq):
        if told.holder is None and _has_living_lock(turn, hook, mq, client_id, event.first_time):
            _hold(turn, hook, client_id, [mq], "PULLED")  # it was cut off, dropped, and is back
        elif turn.state.orderly:
            _doubt_order(turn, _note_rival(turn, mq, client_id, event))
    elif client_id != told.holder:
        if told.holder is not None and event.last_time - told.pull_time <= PULL_SILENCE:
            _note_rival(turn, mq, client_id, event)
            return
        _hold(turn, hook, client_id, [mq], "PULLED")
    if client_id == told.holder:
        commits.note_pull(turn, mq, told, event)
        if commits.is_served(event) and not _awaits_lock(turn, hook, mq, client_id, event):
            commits.begin(turn, mq, told, event.last_time if told.begun_at else event.first_time)


def _awaits_lock(turn: Turn, hook: HookView, mq: MessageQueue, client_id: str, event: PullMessage) -> bool:
    """Whether the queue is ordered and the client has yet to be granted its lock, again after a restart."""
    if turn.hook_queue(mq).begun_at or not _is_locked(turn, hook, mq):
        return False
    return not _has_living_lock(turn, hook, mq, client_id, event.first_time)


def _note_rival(turn: Turn, mq: MessageQueue, client_id: str, event: PullMessage) -> Rival:
    """Two clients pull one queue: so they do for a moment at each hand-over."""
    told = turn.hook_queue(mq)
    rival = told.rival
    if rival is None or rival.client_id != client_id or event.first_time - rival.pull_time > PULL_SILENCE:
        rival = told.rival = Rival(client_id, event.first_time, event.last_time)
    rival.pull_time = event.last_time
    turn.queues_to_judge[mq] = None
    return rival


def _doubt_order(turn: Turn, rival: Rival) -> None:
    """Ordered clients renew their locks every 20 s: if none has, and one goes on pulling, the group is so no more."""
    lives = turn.policy.client_lock_max_live_time
    hooks = [view.hook for view in turn.state.views.values() if view.hook is not None]
    renewed = (turn.now - entry.last_update_timestamp <= lives for hook in hooks for entry in hook.locks.values())
    if rival.pull_time - rival.since > lives and not any(renewed):
        _end_order(turn)


def _end_order(turn: Turn) -> None:
    """Locks named the owners so far, whoever pulled: now who pulls has the queue."""
    turn.state.orderly = None
    turn.group_to_judge = True
    turn.queues_to_judge |= dict.fromkeys(turn.state.queues)
    for view in turn.state.views.values():
        if view.hook is not None:
            view.hook.locks = {}
    for mq, queue in turn.state.queues.items():
        hook = turn.live_hook(turn.state.views.get(mq.broker))
        if hook is not None and queue.hook is not None and queue.hook.rival is not None:
            rival, queue.hook.rival = queue.hook.rival, None
            _hold(turn, hook, rival.client_id, [mq], "PULLED")


def _commit(turn: Turn, view: BrokerView, hook: HookView, event: UpdateConsumerOffset) -> None:
    if event.code == SUCCESS:
        mq = MessageQueue(event.topic, event.broker, event.queue_id)
        client_id = speaker(view, hook, event.channel)
        commits.note_commit(turn, mq, commits.Commit(event.offset, event.time, client_id, event.channel))


def _speaks(turn: Turn, view: BrokerView, hook: HookView, channel: str, client_id: str) -> None:
    """A call that names its client tells whose the channel is, heartbeat or not."""
    broker_view.name_channel(view, client_id, channel)
    if channel not in view.info.channel_info_table and client_id in turn.state.members:
        hook.speakers[channel] = client_id
        _credit(turn, hook, channel, client_id)


def _credit(turn: Turn, hook: HookView, channel: str, client_id: str) -> None:
    """What an unknown channel has said is now known to be this client's."""
    if (said := hook.waiting.pop(channel, None)) is not None:
        _begin(turn, hook, client_id, said)


def _begin(turn: Turn, hook: HookView, client_id: str, queues: dict[MessageQueue, int]) -> None:
    """A client makes process queues. Of ordered queues it has the locks already, which is what counts."""
    taken = [mq for mq in queues if not _is_locked(turn, hook, mq)]
    for mq in taken:
        _retake(turn, mq, client_id, queues[mq])
    _hold(turn, hook, client_id, taken, "OFFSET_ASKED")
    for mq in taken:
        told = turn.hook_queue(mq)
        told.pull_time = queues[mq]
        told.pull_offset = told.start_offset = -1


def _retake(turn: Turn, mq: MessageQueue, client_id: str, now: int) -> None:
    """A client that has pulled a queue asks where to begin again: it has made its process queue anew."""
    told = turn.hook_queue(mq)
    if told.holder != client_id or told.start_offset < 0:
        return
    commits.leave(turn, mq, told)
    told.begun_at = 0
    rebalances.note_retaken(turn, mq, client_id, now)


def _is_locked(turn: Turn, hook: HookView, mq: MessageQueue) -> bool:
    return mq in hook.locks or bool(turn.state.orderly)


def _has_living_lock(turn: Turn, hook: HookView, mq: MessageQueue, client_id: str, now: int) -> bool:
    """Whether the client's lock, the last that was granted, lives by its own reckoning."""
    entry = hook.locks.get(mq)
    if entry is None or entry.client_id != client_id:
        return False
    return now - entry.last_update_timestamp <= turn.policy.client_lock_max_live_time


def _hold(turn: Turn, hook: HookView, client_id: str | None, queues: Iterable[MessageQueue], evidence: str) -> None:
    queues = list(queues)
    for mq in queues:
        told = turn.hook_queue(mq)
        if told.waiting_since and client_id is not None and given_up.is_given_up(turn, mq):
            told.waiting_since = 0  # nobody was to consume it meanwhile
        if told.holder != client_id:
            commits.leave(turn, mq, told, said=evidence == "UNLOCKED")
            commits.take(told, client_id, turn.now)
        told.observed_at = turn.now
    first_sight = turn.now < hook.complete_at
    ownership.reconsider(turn, queues, evidence="FIRST_SEEN" if first_sight else evidence)
