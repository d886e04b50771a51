"""Fold the events of a broker's hook for a group: members, locks, pulls and commits as they happen.

The holder of an ordered queue is the client whose lock was granted last. The holder of a concurrent queue is the client
that last queried its offset (QUERY_CONSUMER_OFFSET): creating a process queue begins with that call. Pulls alone name a
holder only if none is known (of an ordered queue: the client that still has its lock), or if the known one has not
pulled for long: two clients pull one queue alternately until both have rebalanced, and the sum of the former owner's
pulls in its last second comes after the new owner's query.

One replica of a broker is followed: its master, or the slave that stands in for it. Every replica gets heartbeats, and
a slave serves pulls; but clients lock, commit and request lists and offsets at the master, or at a slave while they
know no master. So such a call at another replica shows a failover, whether a slave acts as master or a controller has
elected another one; its lock table is another one, as after a restart. Of the other replicas only pulls count.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from rebalance_model.broker.consumer_group_info import ClientChannelInfo, ConsumerData, ConsumerGroupInfo
from rebalance_model.broker.consumer_manage_processor import QUERY_NOT_FOUND, SUCCESS, SYSTEM_ERROR
from rebalance_model.broker.rebalance_lock_manager import RebalanceLockManager
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    AckMessage,
    BrokerStatus,
    ChangeMessageInvisibletime,
    GetConsumerListByGroup,
    HeartBeat,
    HookEvent,
    LockBatchMq,
    PopMessage,
    ProxyHeartBeat,
    PullMessage,
    QueryConsumerOffset,
    UnlockBatchMq,
    UnregisterClient,
    UpdateConsumerOffset,
    source_of,
)
from rebalance_model.observe.group import (
    causes,
    former_holder,
    member_types,
    ownership,
    rebalances,
    refused_heartbeats,
    skipped,
    subscriptions,
)
from rebalance_model.observe.group.channels import client_of_channel, name_channel
from rebalance_model.observe.group.expectation import expect
from rebalance_model.observe.group.member_types import is_outsider
from rebalance_model.observe.group.membership import HEARD_FROM_ALL, Before, follow
from rebalance_model.observe.group.subscriptions import subscription_table
from rebalance_model.observe.hooks import (
    broker_view,
    commits,
    heartbeats,
    lock_requests,
    pops,
    pull_errors,
    released_queues,
)
from rebalance_model.observe.queue_subject import QueueSubject
from rebalance_model.observe.state import BrokerView, ConcurrentPuller, HookView
from rebalance_model.observe.step import GroupStep

News: TypeAlias = Literal["FIRST", "NEXT", "GAP", "RESTART"]
"""How an event follows the one before it of the same source and group."""

PULL_SILENCE = 30_000
"""A client that has a queue pulls it within this time, unless it is known to hold back; milliseconds."""


_AT_MASTER = (LockBatchMq, UpdateConsumerOffset, GetConsumerListByGroup, QueryConsumerOffset)
"""Calls that a client sends to the master of a broker, if it knows one."""
OF_POPS: frozenset[type[HookEvent]] = frozenset({PopMessage, AckMessage, ChangeMessageInvisibletime, ProxyHeartBeat})
"""Calls of consumers that pop, or about them (`pops`). They show gaps and restarts of the hook, as any event of it."""
ROUTES_RENEWED = 30_000
"""All clients know a new master after this time (pollNameServerInterval); until then they use two; milliseconds."""


def fold_hook(step: GroupStep, event: HookEvent, news: News) -> None:
    """Fold one event of a broker's hook."""
    if news not in ("FIRST", "NEXT"):
        pops.on_gap(step, event.broker)
    if type(event) in OF_POPS:
        pops.fold(step, event)
        if not _is_seen(step, event):
            return  # otherwise a broker without members, as proxies' clients are none, would count as observed
    followed = _follows(step, event)
    if followed == "OTHER":
        _note_slave(step, event)
        return
    if followed == "FAILOVER":
        news = "RESTART"
        _follow(step.state.views[event.broker], source_of(event))
    view, hook = view_of(step, event, news)
    _fold(step, view, hook, event)
    if hook.lost_locks and step.group_to_judge:  # a client that has left no longer relies on its locks
        step.brokers_to_judge[event.broker] = None
    step.schedule_check(step.now + step.policy.client_lock_max_live_time + 1)  # before that nothing is due


def _is_seen(step: GroupStep, event: HookEvent) -> bool:
    """Return whether the group's members and queues at this broker are known from its hook."""
    view = step.state.views.get(event.broker)
    return view is not None and view.hook is not None


def _follows(step: GroupStep, event: HookEvent) -> Literal["FOLLOWED", "FAILOVER", "OTHER"]:
    """Return whether the event is of the replica that is followed, or shows that clients now use this one instead."""
    if isinstance(event, LockBatchMq) and event.only_this_broker:
        return "OTHER"  # not a client's: with lockInStrictMode the master forwards locks to its slaves
    view, source = step.state.views.get(event.broker), source_of(event)
    if view is None or not view.hook_source:
        return "FOLLOWED" if not event.broker_id or isinstance(event, LockBatchMq) else "OTHER"
    if view.hook_source == source:
        return "FOLLOWED"
    hook = step.live_hook(view)
    if not isinstance(event, _AT_MASTER) or event.code != SUCCESS:
        return "OTHER"
    if hook is not None and step.now - hook.covered_since <= ROUTES_RENEWED:
        return "OTHER"
    return "FAILOVER"


def _follow(view: BrokerView, source: str) -> None:
    """Follow the hook of another replica from now on."""
    view.hook_source = source
    if view.hook is not None:
        view.hook.source = source


def _note_slave(step: GroupStep, event: HookEvent) -> None:
    """Process an event of a slave, which serves the queue in place of its master, on another connection."""
    if isinstance(event, PullMessage) and step.hook_of(event.broker) is not None:
        queue = step.state.queues.get(MessageQueue(event.topic, event.broker, event.queue_id))
        if queue is not None and queue.hook_view is not None:
            queue.hook_view.pull_time = step.now
            if not step.state.orderly and queue.hook_view.holder is not None:
                commits.begin(step, MessageQueue(event.topic, event.broker, event.queue_id), queue.hook_view, step.now)


def _restart(step: GroupStep, broker: str, view: BrokerView, hook: HookView) -> None:
    """Apply the restart of a broker, which has no members and locks then; clients return with their next heartbeat.

    The offsets are those stored last, up to 5 s old: unknown until the next commit.
    """
    before, now = Before(step.state, broker), step.now
    for mq, queue in step.state.queues.items():
        if mq.broker == broker and queue.hook_view is not None:
            commits.note_restart(step, mq, queue.hook_view)
    lock_requests.note_restart(step, broker, hook)
    hook.expected_back_until = dict.fromkeys(before.ids or (), now + HEARD_FROM_ALL)
    view.info = ConsumerGroupInfo()
    hook.refused_heartbeats, hook.skips_group = {}, False
    hook.locks, hook.heartbeats, hook.client_by_channel, hook.unattributed_queries = {}, {}, {}, {}
    hook.unconfirmed_differences = ()
    hook.complete_at = hook.covered_since = view.back_at = now
    step.schedule_check(now + HEARD_FROM_ALL)
    rebalances.open_or_extend(step, "BROKER_RESTARTED", broker, client_id=None)
    rebalances.interrupt_all(step, broker)
    follow(step, before, first_sight=False)


def scan(step: GroupStep, broker: str, view: BrokerView, hook: HookView) -> None:
    """Apply the changes in the broker's view that time alone makes, and schedule the next check."""
    state, now = step.state, step.now
    before = Before(state, broker)
    broker_view.scan(view, state.group, now)
    hook.expected_back_until = {c: until for c, until in hook.expected_back_until.items() if until > now}
    hook.recent_unregisters = {c: at for c, at in hook.recent_unregisters.items() if now - at <= HEARD_FROM_ALL}
    hook.unattributed_queries = {
        channel: mqs for channel, mqs in hook.unattributed_queries.items() if now - max(mqs.values()) <= HEARD_FROM_ALL
    }
    heartbeats.note_listed(hook, view.info.client_ids(), now)
    hook.refused_heartbeats = {
        c: one for c, one in hook.refused_heartbeats.items() if refused_heartbeats.find(hook, c, now, step.policy)
    }
    follow(step, before, first_sight=False)
    hook.client_by_channel = {channel: c for channel, c in hook.client_by_channel.items() if c in step.members}
    hook.rebalance_loops = {c: asking for c, asking in hook.rebalance_loops.items() if c in step.members}
    timers = [
        *hook.expected_back_until.values(),
        *(max(mqs.values()) + HEARD_FROM_ALL + 1 for mqs in hook.unattributed_queries.values()),
    ]
    if (expiry := broker_view.next_expiry(view)) is not None:
        timers.append(expiry)
    if timers:
        step.schedule_check(min(timers))


def _fold(step: GroupStep, view: BrokerView, hook: HookView, event: HookEvent) -> None:
    """Fold a call, the most frequent ones first."""
    match event:
        case PullMessage():
            _pull(step, view, hook, event)
        case UpdateConsumerOffset():
            _commit(step, view, hook, event)
        case LockBatchMq():
            _lock(step, view, hook, event)
        case HeartBeat():
            _heart_beat(step, view, hook, event)
        case GetConsumerListByGroup():
            _list(step, view, hook, event)
        case QueryConsumerOffset():
            _query(step, view, hook, event)
        case UnlockBatchMq():
            _unlock(step, view, hook, event)
        case UnregisterClient():
            _unregister(step, view, hook, event)
        case _:
            pass  # OF_POPS


def view_of(step: GroupStep, event: HookEvent | BrokerStatus, news: News) -> tuple[BrokerView, HookView]:
    """Return the broker's view and its hook's, after what the event's number shows: a restart, a gap.

    A view that polls have corrected away, as an answer of a restarted broker does that comes before its hook's first
    event, is created again.
    """
    state = step.state
    view = state.views.get(event.broker)
    if view is None:
        view = state.views[event.broker] = BrokerView(ConsumerGroupInfo(), asked=0)
    hook = view.hook
    if hook is None:
        from_boot = event.seq == 1
        view.hook_source = source_of(event)
        hook = view.hook = HookView(view.hook_source, event.time if from_boot else event.time + HEARD_FROM_ALL)
        for info in view.info.channel_info_table.values():
            info.last_update_timestamp = event.time  # listed by a poll: its age is unknown
    if news == "RESTART":
        _restart(step, event.broker, view, hook)
    if news == "GAP":
        hook.lost_at = event.time
        step.brokers_to_judge[event.broker] = None
    if news != "NEXT" or not hook.covered_since:
        hook.covered_since = event.time
    return view, hook


def _heart_beat(step: GroupStep, view: BrokerView, hook: HookView, event: HeartBeat) -> None:
    if event.code != SUCCESS or hook.skips_group:
        refused_heartbeats.note(hook, event.client_id, event.code, event.time)
        step.clients_to_judge[event.client_id] = None
        return
    hook.refused_heartbeats.pop(event.client_id, None)
    before = Before(step.state, event.broker, by=event.client_id)
    client = ClientChannelInfo(event.channel, event.client_id, event.language, event.version, event.time)
    data = ConsumerData(
        group_name=event.group,
        consume_type=event.consume_type,
        message_model=event.message_model,
        consume_from_where=event.consume_from_where,
        subscription_data_set=tuple(subscription_table(event.subscriptions).values()),
    )
    broker_view.register(view, client, data, without_sub=event.without_sub)
    heartbeats.note(hook, event.client_id, event.channel, event.time, step.policy)
    hook.recent_unregisters.pop(event.client_id, None)
    hook.expected_back_until.pop(event.client_id, None)
    hook.client_by_channel.pop(event.channel, None)
    step.clients_to_judge[event.client_id] = None
    follow(step, before, first_sight=event.time < hook.complete_at)
    if member_types.note(step.state, event.client_id, event.consume_type, event.message_model):
        _note_type(step, event.client_id)
    if not event.without_sub:
        subscriptions.note_heartbeat(step, event.client_id, event.subscriptions)
    _attribute_queries(step, hook, event.channel, event.client_id)


def _note_type(step: GroupStep, client_id: str) -> None:
    """Judge again what depends on how a member consumes, after it declared that first, or changed it."""
    step.group_to_judge = True
    expect(step)
    ownership.reconsider(step, ownership.known_of(step.state, client_id), evidence="ANSWER")


def _unregister(step: GroupStep, view: BrokerView, hook: HookView, event: UnregisterClient) -> None:
    if event.code != SUCCESS:
        return
    before = Before(step.state, event.broker)
    broker_view.unregister(view, event.group, event.channel, event.client_id)
    heartbeats.forget(hook, event.client_id, event.channel)
    hook.recent_unregisters[event.client_id] = event.time
    hook.expected_back_until.pop(event.client_id, None)
    follow(step, before, first_sight=False)


def _list(step: GroupStep, view: BrokerView, hook: HookView, event: GetConsumerListByGroup) -> None:
    if event.code not in (SUCCESS, SYSTEM_ERROR):  # SYSTEM_ERROR: the group has no members
        return
    before = Before(step.state, event.broker)
    if event.code == SYSTEM_ERROR:
        heartbeats.note_empty_list(hook, view, event.channel, event.asked or event.time)
        step.clients_to_judge |= dict.fromkeys(hook.refused_heartbeats)
    else:
        hook.skips_group = False
    broker_view.take_list(view, event.consumer_ids, event.asked or event.time, event.time, hook.recent_unregisters)
    heartbeats.note_listed(hook, view.info.client_ids(), event.time)
    causes.note_list_request(step, hook, client_of_channel(view, hook, event.channel), event.time)
    first_sight = event.time < hook.complete_at
    hook.complete_at = min(hook.complete_at, event.time)
    follow(step, before, first_sight=first_sight)


def _lock(step: GroupStep, view: BrokerView, hook: HookView, event: LockBatchMq) -> None:
    """Apply the broker's answer: granted queues are held, and refused ones are not this client's.

    A client that shuts down while it rebalances is granted locks after it has unregistered. They stay in the broker's
    table until they expire, but nobody has these queues: a process that later joins with that id requests them again.
    """
    _note_channel(step, view, hook, event.channel, event.client_id)
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
    _hold(step, hook, event.client_id, taken, "LOCK_GRANTED")
    step.group_touched = step.group_touched or not lock_requests.is_renewal(step, event, taken)
    for mq in granted:
        commits.begin(step, mq, step.hook_view(mq), event.time)
    if step.state.episode is not None and not going_on:
        for mq in refused_before[:1]:
            rebalances.open_or_extend(step, "LOCK_RETRY", str(mq), client_id=event.client_id)


def _unlock(step: GroupStep, view: BrokerView, hook: HookView, event: UnlockBatchMq) -> None:
    _note_channel(step, view, hook, event.channel, event.client_id)
    for mq in event.queues if hook.lost_locks else ():
        lock_requests.drop_lost_lock(step, event.broker, hook, mq, event.client_id)
    held = [mq for mq in event.queues if lock_requests.gives_up(step, hook, mq, event.client_id)]
    RebalanceLockManager(mq_lock_table={event.group: hook.locks}).unlock_batch(event.group, held, event.client_id)
    _hold(step, hook, None, held, "UNLOCKED")


def _query(step: GroupStep, view: BrokerView, hook: HookView, event: QueryConsumerOffset) -> None:
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


def _pull(step: GroupStep, view: BrokerView, hook: HookView, event: PullMessage) -> None:
    """Apply pulls; their commit comes last: it is that of the last of these pulls, which began before it."""
    mq = MessageQueue(event.topic, event.broker, event.queue_id)
    client_id = client_of_channel(view, hook, event.channel)
    if step.state.pops is not None:
        pops.note_pull(step, step.state.pops, event, client_id)
    released_queues.note_read(step, mq)
    commits.note_former(step, mq, client_id, event)
    pull_errors.note(step, mq, client_id, event)
    client = step.state.clients.get(client_id) if client_id in step.members else None
    if client_id is not None and client is not None and not is_outsider(step.state, client):
        _pull_of(step, hook, mq, client_id, event)
    if event.commit_offset >= 0 and event.code in (None, SUCCESS):  # a refused pull commits nothing
        commit = commits.Commit(event.commit_offset, event.last_time, client_id, event.channel, carried=True)
        commits.note_commit(step, mq, commit)


def _pull_of(step: GroupStep, hook: HookView, mq: MessageQueue, client_id: str, event: PullMessage) -> None:
    hook_view = step.hook_view(mq)
    if client_id != hook_view.holder and _is_locked(step, hook, mq):
        if hook_view.holder is None and _has_living_lock(step, hook, mq, client_id, event.first_time):
            _hold(step, hook, client_id, [mq], "PULLED")  # it was cut off, dropped, and has returned
        elif step.state.orderly:
            _check_order(step, _note_concurrent_puller(step, mq, client_id, event))
    elif client_id != hook_view.holder:
        rivals = (
            hook_view.holder is not None and step.state.queues[mq].owner != client_id
        )  # otherwise its own answer shows it
        if rivals and event.last_time - hook_view.pull_time <= PULL_SILENCE:
            _note_concurrent_puller(step, mq, client_id, event)
            return
        _hold(step, hook, client_id, [mq], "PULLED")
    if client_id == hook_view.holder:
        commits.note_pull(step, mq, hook_view, event)
        if commits.is_served(event) and not _awaits_lock(step, hook, mq, client_id, event):
            commits.begin(step, mq, hook_view, event.last_time if hook_view.begun_at else event.first_time)


def _awaits_lock(step: GroupStep, hook: HookView, mq: MessageQueue, client_id: str, event: PullMessage) -> bool:
    """Return whether the queue is ordered and the client has yet to be granted its lock, also after a restart."""
    if step.hook_view(mq).begun_at or not _is_locked(step, hook, mq):
        return False
    return not _has_living_lock(step, hook, mq, client_id, event.first_time)


def _note_concurrent_puller(step: GroupStep, mq: MessageQueue, client_id: str, event: PullMessage) -> ConcurrentPuller:
    """Record that two clients pull one queue, as happens briefly at each hand-over."""
    hook_view = step.hook_view(mq)
    puller = hook_view.concurrent_puller
    if puller is None or puller.client_id != client_id or event.first_time - puller.pull_time > PULL_SILENCE:
        puller = hook_view.concurrent_puller = ConcurrentPuller(client_id, event.first_time, event.last_time)
    puller.pull_time = event.last_time
    step.queues_to_judge[mq] = None
    return puller


def _check_order(step: GroupStep, puller: ConcurrentPuller) -> None:
    """Check whether the group is still ordered: not if one client keeps pulling and none renews its locks (20 s)."""
    lives = step.policy.client_lock_max_live_time
    hooks = [view.hook for view in step.state.views.values() if view.hook is not None]
    renewed = (not entry.is_expired(step.now, lives) for hook in hooks for entry in hook.locks.values())
    if puller.pull_time - puller.since > lives and not any(renewed):
        _end_order(step)


def _end_order(step: GroupStep) -> None:
    """Switch the group to concurrent: owners were derived from locks so far, and are derived from pulls now."""
    step.state.orderly = None
    step.group_to_judge = True
    step.queues_to_judge |= dict.fromkeys(step.state.queues)
    for view in step.state.views.values():
        if view.hook is not None:
            view.hook.locks = {}
    for mq, queue in step.state.queues.items():
        hook = step.hook_of(mq.broker)
        if hook is not None and queue.hook_view is not None and queue.hook_view.concurrent_puller is not None:
            puller, queue.hook_view.concurrent_puller = queue.hook_view.concurrent_puller, None
            _hold(step, hook, puller.client_id, [mq], "PULLED")


def _commit(step: GroupStep, view: BrokerView, hook: HookView, event: UpdateConsumerOffset) -> None:
    if event.code == SUCCESS:
        mq = MessageQueue(event.topic, event.broker, event.queue_id)
        client_id = client_of_channel(view, hook, event.channel)
        commits.note_commit(step, mq, commits.Commit(event.offset, event.time, client_id, event.channel))


def _note_channel(step: GroupStep, view: BrokerView, hook: HookView, channel: str, client_id: str) -> None:
    """Record the channel of a client that a call names, whether it has sent a heartbeat or not."""
    if channel in view.info.channel_info_table:
        return  # the usual case
    name_channel(view, client_id, channel)
    if channel not in view.info.channel_info_table and client_id in step.state.members:
        hook.client_by_channel[channel] = client_id
        _attribute_queries(step, hook, channel, client_id)


def _attribute_queries(step: GroupStep, hook: HookView, channel: str, client_id: str) -> None:
    """Attribute the queries of an unknown channel to the client that is now known to use it."""
    if (queries := hook.unattributed_queries.pop(channel, None)) is not None:
        _begin(step, hook, client_id, queries)


def _begin(step: GroupStep, hook: HookView, client_id: str, queues: dict[MessageQueue, int]) -> None:
    """Record that a client makes process queues; for ordered queues it has the locks already, which decide."""
    for mq, asked in queues.items():
        skipped.note_query(step, mq, client_id, asked)
    taken = [mq for mq in queues if not _is_locked(step, hook, mq)]
    for mq in taken:
        _retake(step, mq, client_id, queues[mq])
    _hold(step, hook, client_id, taken, "OFFSET_ASKED")
    for mq in taken:
        hook_view = step.hook_view(mq)
        hook_view.pull_time = queues[mq]
        hook_view.pull_offset = hook_view.start_offset = -1


def _retake(step: GroupStep, mq: MessageQueue, client_id: str, now: int) -> None:
    """Record that a client that has pulled a queue queries its offset again: it has made a new process queue."""
    hook_view = step.hook_view(mq)
    if hook_view.holder != client_id or hook_view.start_offset < 0:
        return
    former_holder.keep(step, mq, hook_view)
    hook_view.begun_at = 0
    rebalances.note_retaken(step, mq, client_id, now)


def _is_locked(step: GroupStep, hook: HookView, mq: MessageQueue) -> bool:
    return mq in hook.locks or bool(step.state.orderly)


def _has_living_lock(step: GroupStep, hook: HookView, mq: MessageQueue, client_id: str, now: int) -> bool:
    """Return whether the client's last granted lock is still valid by its own limit."""
    entry = hook.locks.get(mq)
    if entry is None or entry.client_id != client_id:
        return False
    return not entry.is_expired(now, step.policy.client_lock_max_live_time)


def _hold(
    step: GroupStep, hook: HookView, client_id: str | None, queues: Iterable[MessageQueue], evidence: str
) -> None:
    queues = list(queues)
    if not queues:
        return
    for mq in queues:
        hook_view = step.hook_view(mq)
        if client_id is not None:
            released_queues.note_read(step, mq)
        if hook_view.waiting_since and client_id is not None:
            released_queues.forget_wait(step, QueueSubject(step, mq), hook_view)
        if hook_view.holder != client_id:
            former_holder.keep(step, mq, hook_view, unlocked=evidence == "UNLOCKED")
            commits.take(hook_view, client_id, step.now)
        hook_view.observed_at = step.now
    first_sight = step.now < hook.complete_at
    ownership.reconsider(step, queues, evidence="FIRST_SEEN" if first_sight else evidence)
