"""What one broker knows of a consumer group (org.apache.rocketmq.broker.client.ConsumerGroupInfo)."""

import msgspec

from rebalance_model.entities import java_order


class ClientChannelInfo(msgspec.Struct, array_like=True):
    """One member: the broker keys members by channel, so one client id may stand twice."""

    client_id: str
    language: str
    version: int


class SubscriptionData(msgspec.Struct, array_like=True):
    """What a member wants of one topic."""

    topic: str
    sub_string: str
    expression_type: str
    sub_version: int


class ConsumerGroupInfo(msgspec.Struct, array_like=True):
    """Members and subscriptions of a group, as this broker sees them."""

    channels: dict[str, ClientChannelInfo] = {}
    subscriptions: dict[str, SubscriptionData] = {}
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""

    def client_ids(self) -> list[str]:
        """One id for each channel, as clients sort them before they allocate (getAllClientId)."""
        return sorted((channel.client_id for channel in self.channels.values()), key=java_order)
