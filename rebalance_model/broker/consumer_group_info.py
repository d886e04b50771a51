"""A consumer group's members and subscriptions on one broker (org.apache.rocketmq.broker.client.ConsumerGroupInfo)."""

from collections.abc import Sequence

import msgspec

from rebalance_model.entities import in_java_order
from rebalance_model.errors import ModelError

SUB_ALL = "*"
TAG = "TAG"
_TRIMMED_BY_JAVA = "".join(map(chr, range(0x21)))
"""``String.trim`` removes every character up to U+0020, and no other white space."""


class SubscriptionError(ModelError, ValueError):
    """An expression that FilterAPI refuses."""


class SubscriptionData(msgspec.Struct, array_like=True, frozen=True):
    """A member's subscription of one topic (org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData).

    Java carries the tags and their hash codes beside the expression; they follow from it, so here they are computed.
    """

    topic: str
    sub_string: str
    expression_type: str
    sub_version: int
    """When the client created or last changed it, by the client's clock (ms): the broker keeps the largest."""

    @property
    def tags_set(self) -> tuple[str, ...]:
        """The subscribed tags without repeats; empty for every message or an expression that is not a list of tags."""
        return _tags(self.sub_string) if self.expression_type == TAG and self.sub_string != SUB_ALL else ()

    @property
    def code_set(self) -> tuple[int, ...]:
        """Java's hash codes of the tags, by which the consume queue is filtered. Two tags may share one."""
        return tuple(dict.fromkeys(map(java_hash_code, self.tags_set)))


def build_subscription_data(
    topic: str, sub_string: str | None, now: int, expression_type: str | None = TAG
) -> SubscriptionData:
    """Return the subscription that a client builds from an expression (FilterAPI.build).

    Args:
        topic: the topic.
        sub_string: tags separated by ``||``; for a type other than TAG, an expression that the broker compiles.
        now: becomes the version.
        expression_type: the type of the expression; None is TAG.

    Raises:
        SubscriptionError: a list of tags that consists of separators only, or an empty expression of another type.
    """
    if expression_type not in (TAG, None):
        if not sub_string:
            msg = f"Expression can't be null! {expression_type}"
            raise SubscriptionError(msg)
        return SubscriptionData(topic, sub_string, expression_type, now)
    if sub_string and not sub_string.replace("||", ""):  # Java's split drops empty parts at the end: no tag remains
        msg = "subString split error"
        raise SubscriptionError(msg)
    return SubscriptionData(topic, sub_string or SUB_ALL, TAG, now)


def java_hash_code(text: str) -> int:
    """Return ``String.hashCode``: over UTF-16 code units, in signed 32-bit arithmetic."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


def _tags(sub_string: str) -> tuple[str, ...]:
    trimmed = (part.strip(_TRIMMED_BY_JAVA) for part in sub_string.split("||"))
    return tuple(dict.fromkeys(tag for tag in trimmed if tag))


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
