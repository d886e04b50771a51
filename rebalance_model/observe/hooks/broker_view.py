"""One broker's ConsumerGroupInfo, rebuilt from what its hook tells, through the broker-side core.

Three things no event says. A member without a heartbeat goes at the broker's scan, 120 to 130 s after its last one: it
is taken out when the scan must have been. A closed channel goes at once, and the broker's next answer to who the
members are (GET_CONSUMER_LIST_BY_GROUP) leaves it out. And the answer may name a member whose heartbeat was not seen:
it stands in the table under a channel of its own until it says on which one it is.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from rebalance_model.broker.consumer_group_info import ClientChannelInfo, ConsumerData, ConsumerGroupInfo
from rebalance_model.broker.consumer_manager import SCAN_PERIOD, ConsumerManager
from rebalance_model.observe.group.channels import CHANNEL_EXPIRED, UNNAMED, name_channel
from rebalance_model.observe.state import BrokerView


def register(view: BrokerView, client: ClientChannelInfo, data: ConsumerData, *, without_sub: bool) -> None:
    """Take a heartbeat of the group (ClientManageProcessor.heartBeat)."""
    name_channel(view, client.client_id, client.channel)
    manager = _manager(view, data.group_name)
    take = manager.register_consumer_without_sub if without_sub else manager.register_consumer
    take(data, client, client.last_update_timestamp, notify=False)
    view.info = manager.consumer_table[data.group_name]


def unregister(view: BrokerView, group: str, channel: str, client_id: str) -> None:
    """A client has said that it leaves (ConsumerManager.unregisterConsumer)."""
    manager = _manager(view, group)
    manager.unregister_consumer(group, ClientChannelInfo(channel, client_id), notify=False)
    view.info = manager.consumer_table.get(group, ConsumerGroupInfo())


def scan(view: BrokerView, group: str, now: int) -> None:
    """Take out who has not heartbeaten (ConsumerManager.scanNotActiveChannel)."""
    manager = _manager(view, group)
    manager.scan_not_active_channel(now - SCAN_PERIOD)
    view.info = manager.consumer_table.get(group, ConsumerGroupInfo())


def take_list(
    view: BrokerView, consumer_ids: Sequence[str], asked: int, now: int, recent_unregisters: dict[str, int]
) -> None:
    """Take the broker's own list of members, one id for each channel.

    Who has heartbeaten since ``asked`` may be missing from it, and who has left since then may stand in it.
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
    """When the next member is taken out, unless it heartbeats."""
    stamps = [info.last_update_timestamp for info in view.info.channel_info_table.values()]
    return min(stamps) + CHANNEL_EXPIRED + 1 if stamps else None


def _manager(view: BrokerView, group: str) -> ConsumerManager:
    """The broker's consumer manager, with this group alone; a group without members is not in its table."""
    return ConsumerManager(consumer_table={group: view.info} if view.info.channel_info_table else {})
