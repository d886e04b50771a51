"""Fold the calls that show who is a member: heartbeats, unregistrations, and requests of the members' list.

Rebuild one broker's ConsumerGroupInfo from its hook's events, with the broker side of the model.

Three changes have no event. A member without a heartbeat is removed by the broker's scan, 120 to 130 s after its last
one: it is removed here when that scan must have run. A closed channel is removed at once, and the broker's next answer
with the member list (GET_CONSUMER_LIST_BY_GROUP) does not contain it. And that answer may contain a member whose
heartbeat was not seen: it is kept under a placeholder channel until a call shows its real one.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from rebalance_model.broker.broker_config import SUCCESS, SYSTEM_ERROR
from rebalance_model.broker.consumer_group_info import ClientChannelInfo, ConsumerData, ConsumerGroupInfo
from rebalance_model.broker.consumer_manager import SCAN_PERIOD, ConsumerManager
from rebalance_model.observe.events import GetConsumerListByGroup, HeartBeat, UnregisterClient
from rebalance_model.observe.facts.group_facts import group_info
from rebalance_model.observe.group import causes, ghost_connections, member_types, ownership
from rebalance_model.observe.group.expectation import expect
from rebalance_model.observe.group.ghost_connections import (
    CHANNEL_EXPIRED,
    UNNAMED,
    client_of_channel,
    name_channel,
    subscription_table,
)
from rebalance_model.observe.group.membership import Before, follow
from rebalance_model.observe.hooks import heartbeats, offset_queries
from rebalance_model.observe.state import BrokerView, HookView
from rebalance_model.observe.step import GroupStep


def register(view: BrokerView, client: ClientChannelInfo, data: ConsumerData, *, without_sub: bool) -> None:
    """Apply a heartbeat of the group (ClientManageProcessor.heartBeat)."""
    name_channel(view, client.client_id, client.channel)
    manager = _manager(view, data.group_name)
    take = manager.register_consumer_without_sub if without_sub else manager.register_consumer
    take(data, client, client.last_update_timestamp, notify=False)
    view.info = manager.consumer_table[data.group_name]


def unregister(view: BrokerView, group: str, channel: str, client_id: str) -> None:
    """Apply a client's unregistration (ConsumerManager.unregisterConsumer)."""
    manager = _manager(view, group)
    manager.unregister_consumer(group, ClientChannelInfo(channel, client_id), notify=False)
    view.info = manager.consumer_table.get(group, ConsumerGroupInfo())


def scan(view: BrokerView, group: str, now: int) -> None:
    """Remove members without a recent heartbeat (ConsumerManager.scanNotActiveChannel)."""
    manager = _manager(view, group)
    manager.scan_not_active_channel(now - SCAN_PERIOD)
    view.info = manager.consumer_table.get(group, ConsumerGroupInfo())


def take_list(
    view: BrokerView, consumer_ids: Sequence[str], asked: int, now: int, recent_unregisters: dict[str, int]
) -> None:
    """Apply the broker's own list of members, one id for each channel.

    A client that sent a heartbeat after ``asked`` may be missing from it, and one that left after that may be in it.
    """
    table = view.info.channel_info_table
    channels: defaultdict[str, list[ClientChannelInfo]] = defaultdict(list)
    for info in table.values():
        channels[info.client_id].append(info)
    listed = Counter(consumer_ids)
    for client_id, known in channels.items():
        known.sort(key=lambda info: info.last_update_timestamp)
        for info in known[: max(0, len(known) - listed[client_id])]:
            if info.last_update_timestamp < asked:
                del table[info.channel]
    for client_id in listed:
        if client_id not in channels and recent_unregisters.get(client_id, -1) < asked:
            unknown = UNNAMED + client_id
            table[unknown] = ClientChannelInfo(unknown, client_id, last_update_timestamp=now)
    if not table:
        view.info = ConsumerGroupInfo()


def next_expiry(view: BrokerView) -> int | None:
    """Return when the next member is removed, unless it sends a heartbeat; None if there is none."""
    stamps = [info.last_update_timestamp for info in view.info.channel_info_table.values()]
    return min(stamps) + CHANNEL_EXPIRED + 1 if stamps else None


def _manager(view: BrokerView, group: str) -> ConsumerManager:
    """Return the broker's consumer manager with this group alone; a group without members is not in its table."""
    return ConsumerManager(consumer_table={group: view.info} if view.info.channel_info_table else {})


def fold_heartbeat(step: GroupStep, view: BrokerView, hook: HookView, event: HeartBeat) -> None:
    """Fold a heartbeat: its client is a member, with what it declares."""
    if event.code != SUCCESS or hook.skips_group:
        ghost_connections.note(hook, event.client_id, event.code, event.time)
        step.clients_to_judge[event.client_id] = None
        return
    if hook.refused_heartbeats.pop(event.client_id, None) is not None:
        hook.expired.pop(event.client_id, None)  # its heartbeats came, and were not taken
    if hook.expired or hook.seldom_heartbeats:
        heartbeats.note_returned(step, hook, event)
    before = None if _repeats(step, view, event) else Before(step.state, event.broker, by=event.client_id)
    client = ClientChannelInfo(event.channel, event.client_id, event.language, event.version, event.time)
    data = ConsumerData(
        group_name=event.group,
        consume_type=event.consume_type,
        message_model=event.message_model,
        consume_from_where=event.consume_from_where,
        subscription_data_set=tuple(subscription_table(event.subscriptions).values()),
    )
    register(view, client, data, without_sub=event.without_sub)
    heartbeats.note(hook, event.client_id, event.channel, event.time, step.policy)
    hook.recent_unregisters.pop(event.client_id, None)
    hook.expected_back_until.pop(event.client_id, None)
    hook.client_by_channel.pop(event.channel, None)
    step.clients_to_judge[event.client_id] = None
    if before is not None:
        follow(step, before, first_sight=event.time < hook.complete_at)
    if member_types.note(step.state, event.client_id, event.consume_type, event.message_model):
        _note_type(step, event.client_id)
    if not event.without_sub:
        ghost_connections.note_heartbeat(step, event.client_id, event.subscriptions)
    offset_queries.attribute(step, hook, event.channel, event.client_id)


def _repeats(step: GroupStep, view: BrokerView, event: HeartBeat) -> bool:
    """Return whether a heartbeat shows nothing of the members that the broker's view lacks, so that none follows."""
    state, info, known = step.state, group_info(step.state), view.info.channel_info_table.get(event.channel)
    if known is None or known.client_id != event.client_id or event.client_id not in state.members or info is None:
        return False
    is_known = view.info.message_model == event.message_model and info.message_model in ("", state.message_model)
    topics = view.info.subscription_table.keys()
    is_known = is_known and state.causes_since > 0
    return is_known and (event.without_sub or topics == {one.topic for one in event.subscriptions})


def _note_type(step: GroupStep, client_id: str) -> None:
    """Judge again what depends on how a member consumes, after it declared that first, or changed it."""
    step.changed("DECLARED")
    expect(step)
    ownership.reconsider(step, ownership.known_of(step.state, client_id), evidence="ANSWER")


def fold_unregistration(step: GroupStep, view: BrokerView, hook: HookView, event: UnregisterClient) -> None:
    """Fold an unregistration: the client is no member at this broker any more."""
    if event.code != SUCCESS:
        return
    before = Before(step.state, event.broker)
    unregister(view, event.group, event.channel, event.client_id)
    heartbeats.forget(hook, event.client_id, event.channel)
    hook.recent_unregisters[event.client_id] = event.time
    hook.expected_back_until.pop(event.client_id, None)
    follow(step, before, first_sight=False)


def fold_list(step: GroupStep, view: BrokerView, hook: HookView, event: GetConsumerListByGroup) -> None:
    """Fold the list of the members that the broker has returned to one of them."""
    if event.code not in (SUCCESS, SYSTEM_ERROR):  # SYSTEM_ERROR: the group has no members
        return
    ids = view.info.client_ids()
    is_usual = (
        event.code == SUCCESS and ids and event.time >= hook.complete_at and sorted(event.consumer_ids) == sorted(ids)
    )
    if not is_usual or hook.skips_group or not _is_row_lasting(step):
        step.changed("REPORT")
    if is_usual:
        hook.skips_group = False
        heartbeats.note_listed(hook, ids, event.time)
        causes.note_list_request(step, hook, client_of_channel(view, hook, event.channel), event.time)
        return
    before = Before(step.state, event.broker)
    if event.code == SYSTEM_ERROR:
        heartbeats.note_empty_list(hook, view, event.channel, event.asked or event.time)
        step.clients_to_judge |= dict.fromkeys(hook.refused_heartbeats)
    else:
        hook.skips_group = False
    take_list(view, event.consumer_ids, event.asked or event.time, event.time, hook.recent_unregisters)
    heartbeats.note_listed(hook, view.info.client_ids(), event.time)
    causes.note_list_request(step, hook, client_of_channel(view, hook, event.channel), event.time)
    first_sight = event.time < hook.complete_at
    hook.complete_at = min(hook.complete_at, event.time)
    follow(step, before, first_sight=first_sight)


def _is_row_lasting(step: GroupStep) -> bool:
    """Return whether the group's row does not change by time alone: its members answer, and nothing is said of it."""
    row = step.state.last_row
    return row is not None and row.health == "OK" and not row.health_reason and step.facts.shows_owners
