"""Process heartbeats and unregistrations at the broker (ClientManageProcessor: HEART_BEAT 34, UNREGISTER_CLIENT 35)."""

import msgspec

from rebalance_model.broker.consumer_group_info import CONSUME_ACTIVELY, ClientChannelInfo, ConsumerData
from rebalance_model.broker.consumer_manager import AnyConsumerGroupEvent, ConsumerManager, Outcome
from simulation.rocketmq.broker.subscription_group_config import SubscriptionGroupManager


class HeartbeatData(msgspec.Struct, frozen=True):
    """A client's heartbeat, one for all of its groups."""

    client_id: str
    consumer_data_set: tuple[ConsumerData, ...]
    heartbeat_fingerprint: int = 0
    """Hash of the client's subscriptions; 0 if the client does not send it."""
    without_sub: bool = False
    """The subscriptions are left out, since they have not changed."""


class HeartbeatReply(msgspec.Struct, frozen=True):
    """The broker's response, always SUCCESS, and its effects."""

    events: tuple[AnyConsumerGroupEvent, ...]
    registered: tuple[str, ...]
    """The groups that were accepted; each has a retry topic from now on."""
    is_sub_change: bool
    """Asks the client to send its full subscriptions."""


class ClientManageProcessor(msgspec.Struct):
    """Passes each group of a heartbeat on to the `ConsumerManager`."""

    consumer_manager: ConsumerManager
    subscription_group_manager: SubscriptionGroupManager
    consumer_group_heartbeat_table: dict[str, int] = {}
    """The last fingerprint of each group: one for all of its clients, so differing members are detected."""

    def heart_beat(
        self, channel: str, heartbeat: HeartbeatData, now: int, language: str = "", version: int = 0
    ) -> HeartbeatReply:
        """Apply a heartbeat (heartBeat, heartBeatV2).

        A group without a configuration that may not get one is ignored, and the client is not notified.
        """
        client = ClientChannelInfo(channel, heartbeat.client_id, language, version, now)
        manager = self.consumer_manager
        fingerprint = heartbeat.heartbeat_fingerprint if manager.dialect.heartbeat_v2 else 0
        differs = False
        events: list[AnyConsumerGroupEvent] = []
        registered: list[str] = []
        for data in heartbeat.consumer_data_set:
            if manager.config.reject_pull_consumer_enable and data.consume_type == CONSUME_ACTIVELY:
                continue
            differs |= self.consumer_group_heartbeat_table.get(data.group_name, fingerprint) != fingerprint
            self.consumer_group_heartbeat_table[data.group_name] = fingerprint
            group = self.subscription_group_manager.find_subscription_group_config(data.group_name)
            if group is None and not manager.dialect.unknown_group_registers:
                continue
            notify = group is None or group.notify_consumer_ids_changed_enable
            without_sub = heartbeat.without_sub and fingerprint != 0
            register = manager.register_consumer_without_sub if without_sub else manager.register_consumer
            events += register(data, client, now, notify=notify).events
            registered.append(data.group_name)
        return HeartbeatReply(tuple(events), tuple(registered), is_sub_change=differs or fingerprint == 0)

    def unregister_client(self, channel: str, client_id: str, group: str) -> Outcome:
        """Remove a client from a group at its own request (unregisterClient)."""
        config = self.subscription_group_manager.find_subscription_group_config(group)
        notify = config is None or config.notify_consumer_ids_changed_enable
        return self.consumer_manager.unregister_consumer(group, ClientChannelInfo(channel, client_id), notify=notify)
