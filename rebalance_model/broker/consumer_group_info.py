"""A consumer group's members and subscriptions on one broker (org.apache.rocketmq.broker.client.ConsumerGroupInfo)."""

from collections.abc import Sequence

import msgspec

from rebalance_model.broker.subscription import SubscriptionData
from rebalance_model.entities import in_java_order

BROADCASTING = "BROADCASTING"
CONSUME_ACTIVELY = "CONSUME_ACTIVELY"


class ClientChannelInfo(msgspec.Struct, array_like=True):
    """One member. The broker keys members by channel, so a client id may occur twice.

    As in Java, one heartbeat makes one object and every group in it holds that object: its age is common to them.
    """

    channel: str
    """The connection's identity: a client that reconnects has another one."""
    client_id: str
    language: str = ""
    version: int = 0
    last_update_timestamp: int = 0
    """When the last heartbeat came, by the broker's clock; 0 if the broker's answer does not contain it."""


class ConsumerData(msgspec.Struct, frozen=True):
    """A heartbeat's data of one consumer group (org.apache.rocketmq.remoting.protocol.heartbeat.ConsumerData)."""

    group_name: str
    consume_type: str
    message_model: str
    consume_from_where: str
    subscription_data_set: tuple[SubscriptionData, ...]
    """In the order of processing, which matters if a topic occurs twice; Java has a HashSet."""


class ConsumerGroupInfo(msgspec.Struct, array_like=True):
    """Members and subscriptions of a group, as this broker sees them. The last heartbeat's view of the group wins."""

    channel_info_table: dict[str, ClientChannelInfo] = {}
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""
    last_update_timestamp: int = 0

    def client_ids(self) -> list[str]:
        """Return one id for each channel (getAllClientId), in the order in which clients sort ids."""
        return list(in_java_order([info.client_id for info in self.channel_info_table.values()]))

    def channels(self) -> tuple[str, ...]:
        """Return every channel (getAllChannel), in the order of arrival; in Java the order is undefined."""
        return tuple(self.channel_info_table)

    def find_channel(self, client_id: str) -> ClientChannelInfo | None:
        """Return the first channel with that client id: it gets the requests that the broker forwards to a client."""
        return next((info for info in self.channel_info_table.values() if info.client_id == client_id), None)

    def update_channel(self, new: ClientChannelInfo, data: ConsumerData, now: int) -> bool:
        """Add or refresh the member of a heartbeat (updateChannel).

        Another client id on a known channel replaces the member without counting as a change; and it is the replaced
        object that gets the time stamp.

        Returns:
            Whether the channel is new.
        """
        self.consume_type = data.consume_type
        self.message_model = data.message_model
        self.consume_from_where = data.consume_from_where
        old = self.channel_info_table.get(new.channel)
        if old is None or old.client_id != new.client_id:
            self.channel_info_table[new.channel] = new
        self.last_update_timestamp = now
        (new if old is None else old).last_update_timestamp = now
        return old is None

    def update_subscription(self, subscriptions: Sequence[SubscriptionData], now: int) -> bool:
        """Replace the subscriptions by those of a heartbeat (updateSubscription).

        A known topic is replaced only by a newer version, which does not count as a change; a topic that is no longer
        included is removed. So members that subscribe differently undo each other's change with every heartbeat.

        Returns:
            Whether a topic was added or removed.
        """
        updated = False
        for new in subscriptions:
            old = self.subscription_table.get(new.topic)
            updated |= old is None
            if old is None or new.sub_version > old.sub_version:
                self.subscription_table[new.topic] = new
        named = {subscription.topic for subscription in subscriptions}
        for topic in [topic for topic in self.subscription_table if topic not in named]:
            del self.subscription_table[topic]
            updated = True
        self.last_update_timestamp = now
        return updated
