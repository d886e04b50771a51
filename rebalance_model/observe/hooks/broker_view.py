"""Rebuild one broker's ConsumerGroupInfo from its hook's events, with the broker side of the model.

Three changes have no event. A member without a heartbeat is removed by the broker's scan, 120 to 130 s after its last
one: it is removed here when that scan must have run. A closed channel is removed at once, and the broker's next answer
with the member list (GET_CONSUMER_LIST_BY_GROUP) does not contain it. And that answer may contain a member whose
heartbeat was not seen: it is kept under a placeholder channel until a call shows its real one.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from rebalance_model.broker.consumer_group_info import ClientChannelInfo, ConsumerData, ConsumerGroupInfo
from rebalance_model.broker.consumer_manager import SCAN_PERIOD, ConsumerManager
from rebalance_model.observe.group.channels import CHANNEL_EXPIRED, UNNAMED, name_channel
from rebalance_model.observe.state import BrokerView


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
