"""The groups of one broker (org.apache.rocketmq.broker.client.ConsumerManager).

A member can leave a group in two ways without a notification. The scan for expired channels does not notify the other
members, and the close of the channel that follows finds nothing to remove: the others notice it at their own next
rebalance, at most 20 s later. And another client id on a known channel does not count as a change.
"""

from collections.abc import Iterable

import msgspec

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.broker.consumer_group_info import (
    BROADCASTING,
    ClientChannelInfo,
    ConsumerData,
    ConsumerGroupInfo,
    SubscriptionData,
)
from rebalance_model.dialect import Dialect


class EventClient(msgspec.Struct, frozen=True):
    """The client that an event is about."""

    channel: str
    client_id: str


class ConsumerGroupEvent(msgspec.Struct, frozen=True):
    """One call of ``ConsumerIdsChangeListener.handle``."""

    group: str


class MemberChange(ConsumerGroupEvent, frozen=True, tag="CHANGE"):
    """The members changed; the channels are those that a notification would go to."""

    channels: tuple[str, ...]


class Register(ConsumerGroupEvent, frozen=True, tag="REGISTER"):
    """A heartbeat with subscriptions came; sent for every such heartbeat, changed or not."""

    subscriptions: tuple[SubscriptionData, ...]
    client: EventClient | None
    """None in releases without client events."""


class Unregister(ConsumerGroupEvent, frozen=True, tag="UNREGISTER"):
    """The last member unregistered, or its channel was closed."""


class ClientRegister(ConsumerGroupEvent, frozen=True, tag="CLIENT_REGISTER"):
    """A channel is new in the group."""

    client: EventClient
    topics: frozenset[str]
    """The subscriptions of its heartbeat."""


class ClientUnregister(ConsumerGroupEvent, frozen=True, tag="CLIENT_UNREGISTER"):
    """A channel left the group."""

    client: EventClient
    topics: frozenset[str]
    """The topics that the group subscribes."""


AnyConsumerGroupEvent = MemberChange | Register | Unregister | ClientRegister | ClientUnregister


class Outcome(msgspec.Struct, frozen=True):
    """The result of one operation of the `ConsumerManager`."""

    changed: bool
    """The return value of the Java method: whether members or topics changed (register), or a member left (close)."""
    events: tuple[AnyConsumerGroupEvent, ...]
    """The events, in the order in which Java fires them."""
    closing: tuple[str, ...] = ()
    """Channels that the scan closes: their close events follow."""


SCAN_PERIOD = 10_000
"""The interval of the broker's scans, and the time from its start to the first (ClientHousekeepingService);
milliseconds."""


class ConsumerManager(msgspec.Struct):
    """Members, subscriptions and the events of every group; `now` is the broker's clock in milliseconds.

    The groups' `notify` is SubscriptionGroupConfig's notifyConsumerIdsChangedEnable.
    """

    config: BrokerConfig = BrokerConfig()
    dialect: Dialect = Dialect()
    consumer_table: dict[str, ConsumerGroupInfo] = {}
    topic_group_table: dict[str, set[str]] = {}
    """Groups that have ever subscribed a topic; neither an unsubscription nor a scan removes them."""
    consumer_compensation_table: dict[str, ConsumerGroupInfo] = {}
    """Groups that pull without a heartbeat, or through a proxy."""
    channel_groups: dict[str, str] = {}
    """The groups recorded on a channel for the fast close, each followed by ``|`` (ClientChannelAttributeHelper)."""

    def register_consumer(
        self, data: ConsumerData, client: ClientChannelInfo, now: int, *, notify: bool, update_subscription: bool = True
    ) -> Outcome:
        """Apply a heartbeat with subscriptions (registerConsumer): may fire CLIENT_REGISTER, CHANGE, REGISTER."""
        group, subscriptions = data.group_name, data.subscription_data_set
        info = self.consumer_table.setdefault(group, ConsumerGroupInfo())
        self._index(group, subscriptions)
        connected = info.update_channel(client, data, now)
        who = EventClient(client.channel, client.client_id)
        events: list[AnyConsumerGroupEvent] = []
        if connected and self.dialect.client_events:
            events.append(ClientRegister(group, who, frozenset(s.topic for s in subscriptions)))
        updated = update_subscription and info.update_subscription(subscriptions, now)
        if connected or updated:
            events += self._change(group, info, notify=notify)
        if connected and self.config.enable_fast_channel_event_process:
            self._note_group(client.channel, group)
        events.append(Register(group, subscriptions, who if self.dialect.client_events else None))
        return Outcome(connected or updated, tuple(events))

    def register_consumer_without_sub(
        self, data: ConsumerData, client: ClientChannelInfo, now: int, *, notify: bool
    ) -> Outcome:
        """Apply a heartbeat without subscriptions (registerConsumerWithoutSub); fires at most CHANGE.

        A group that it creates has no subscription, so pulls fail until a full heartbeat comes; and a channel that it
        creates is not recorded for the fast close.
        """
        info = self.consumer_table.setdefault(data.group_name, ConsumerGroupInfo())
        self._index(data.group_name, info.subscription_table.values())
        connected = info.update_channel(client, data, now)
        return Outcome(connected, self._change(data.group_name, info, notify=notify) if connected else ())

    def unregister_consumer(self, group: str, client: ClientChannelInfo, *, notify: bool) -> Outcome:
        """Remove the member on the client's channel, whatever client id it sends (unregisterConsumer).

        CHANGE is fired even if the channel was not in the group, and even if no member is left. Java returns nothing;
        here `changed` is True if a member was removed.
        """
        info = self.consumer_table.get(group)
        if info is None:
            return Outcome(changed=False, events=())
        removed = info.channel_info_table.pop(client.channel, None) is not None
        events = self._client_gone(group, info, client) if removed else []
        events += self._drop_if_empty(group, info)
        events += self._change(group, info, notify=notify)
        return Outcome(removed, tuple(events))

    def do_channel_close_event(self, channel: str) -> Outcome:
        """Remove a channel that was closed, failed or was idle for 120 s (doChannelCloseEvent).

        Unlike an unregistering client, this does not read the group's own `notify`. The fast form searches only the
        groups recorded on the channel, and notifies BROADCASTING members, too. The record is removed with the channel:
        a later connection is another channel.
        """
        fast = self.config.enable_fast_channel_event_process
        groups = self.channel_groups.pop(channel, "").split("|") if fast else list(self.consumer_table)
        events: list[AnyConsumerGroupEvent] = []
        removed = False
        for group in groups:
            info = self.consumer_table.get(group)
            if info is not None and (client := info.channel_info_table.pop(channel, None)) is not None:
                removed = True
                events += self._client_gone(group, info, client)
                events += self._drop_if_empty(group, info)
                events += (MemberChange(group, info.channels()),) if fast else self._change(group, info, notify=True)
        return Outcome(removed, tuple(events))

    def scan_not_active_channel(self, now: int) -> Outcome:
        """Remove members without a heartbeat (scanNotActiveChannel); no CHANGE, no UNREGISTER of an empty group."""
        events: list[AnyConsumerGroupEvent] = []
        closing: list[str] = []
        for group, info in list(self.consumer_table.items()):
            for channel, client in list(info.channel_info_table.items()):
                if now - client.last_update_timestamp > self.config.channel_expired_timeout:
                    events += self._client_gone(group, info, client)
                    closing.append(channel)
                    del info.channel_info_table[channel]
            if not info.channel_info_table:
                del self.consumer_table[group]
        self._expire_compensation(now)
        return Outcome(bool(closing), tuple(events), tuple(dict.fromkeys(closing)))

    def compensate_basic_consumer_info(self, group: str, consume_type: str, message_model: str) -> None:
        """Record a group that sends no heartbeats (compensateBasicConsumerInfo)."""
        info = self.consumer_compensation_table.setdefault(group, ConsumerGroupInfo())
        info.consume_type, info.message_model = consume_type, message_model

    def compensate_subscribe_data(self, group: str, subscription: SubscriptionData) -> None:
        """Record a subscription of a group that sends no heartbeats (compensateSubscribeData)."""
        info = self.consumer_compensation_table.setdefault(group, ConsumerGroupInfo())
        info.subscription_table[subscription.topic] = subscription

    def find_subscription_data(
        self, group: str, topic: str, *, from_compensation_table: bool = True
    ) -> SubscriptionData | None:
        """Return the group's subscription of a topic (findSubscriptionData)."""
        tables = (self.consumer_table, self.consumer_compensation_table)[: 1 + from_compensation_table]
        infos = (table[group] for table in tables if group in table)
        return next((info.subscription_table[topic] for info in infos if topic in info.subscription_table), None)

    def query_topic_consume_by_who(self, topic: str) -> frozenset[str]:
        """Return the groups that consume a topic (queryTopicConsumeByWho)."""
        if self.dialect.topic_group_table:
            return frozenset(self.topic_group_table.get(topic, ()))
        return frozenset(group for group, info in self.consumer_table.items() if topic in info.subscription_table)

    def _change(self, group: str, info: ConsumerGroupInfo, *, notify: bool) -> tuple[MemberChange, ...]:
        is_notified = notify and (self.dialect.broadcasting_notified or info.message_model != BROADCASTING)
        return (MemberChange(group, info.channels()),) if is_notified else ()

    def _client_gone(
        self, group: str, info: ConsumerGroupInfo, client: ClientChannelInfo
    ) -> list[AnyConsumerGroupEvent]:
        if not self.dialect.client_events:
            return []
        return [
            ClientUnregister(group, EventClient(client.channel, client.client_id), frozenset(info.subscription_table))
        ]

    def _drop_if_empty(self, group: str, info: ConsumerGroupInfo) -> tuple[Unregister, ...]:
        if info.channel_info_table:
            return ()
        del self.consumer_table[group]
        for topic in info.subscription_table.keys() & self.topic_group_table.keys():
            self.topic_group_table[topic].discard(group)
            if not self.topic_group_table[topic]:
                del self.topic_group_table[topic]
        return (Unregister(group),)

    def _index(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        if self.dialect.topic_group_table:
            for subscription in subscriptions:
                self.topic_group_table.setdefault(subscription.topic, set()).add(group)

    def _note_group(self, channel: str, group: str) -> None:
        noted = self.channel_groups.get(channel, "")
        if f"|{group}|" not in noted:  # the first one has no bar before it, so it may be recorded twice, without harm
            self.channel_groups[channel] = f"{noted}{group}|"

    def _expire_compensation(self, now: int) -> None:
        for group, info in list(self.consumer_compensation_table.items()):
            table = info.subscription_table
            timeout = self.config.subscription_expired_timeout
            expired = [topic for topic, subscription in table.items() if now - subscription.sub_version > timeout]
            for topic in expired:
                del table[topic]
            if expired and not table:  # a group that never had a subscription stays
                del self.consumer_compensation_table[group]
