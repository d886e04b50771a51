"""The broker's configuration of a consumer group, and how a group gets one (SubscriptionGroupManager)."""

import re

import msgspec

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.dialect import Dialect
from rebalance_model.entities import SYSTEM_GROUP_PREFIX

_GROUP_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,120}")
"""TopicValidator.validateGroup; 120, since retry and dead-letter topics are named after the group."""
_PREDEFINED_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)


class SubscriptionGroupConfig(msgspec.Struct):
    """A group's permissions and limits (org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig)."""

    group_name: str
    consume_enable: bool = True
    """False: every pull is refused."""
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    """False: pulls of a BROADCASTING consumer are refused."""
    consume_message_orderly: bool = False
    """Used by pop consumption only."""
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    """A message goes to the dead-letter topic after this many retries."""
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    """False: heartbeats and unregistrations don't fire CHANGE. A closed channel does nevertheless."""
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15


class SubscriptionGroupManager(msgspec.Struct):
    """The configurations of one broker (org.apache.rocketmq.broker.subscription.SubscriptionGroupManager)."""

    config: BrokerConfig = BrokerConfig()
    dialect: Dialect = Dialect()
    subscription_group_table: dict[str, SubscriptionGroupConfig] = msgspec.field(
        default_factory=lambda: {group: SubscriptionGroupConfig(group) for group in _PREDEFINED_GROUPS}
    )

    def find_subscription_group_config(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the group's configuration, created here if the broker allows automatic creation.

        Returns:
            None if it may not be created: then the consumer's heartbeat is ignored without an error.
        """
        config = self.subscription_group_table.get(group)
        if config is None and self._may_create(group):
            config = self.subscription_group_table[group] = SubscriptionGroupConfig(group)
        return config

    def contains_subscription_group(self, group: str) -> bool:
        """Return whether the group has a configuration; none is created."""
        return bool(group.strip()) and group in self.subscription_group_table

    def update_subscription_group_config(self, config: SubscriptionGroupConfig) -> None:
        """Set a group's configuration, as an operator does."""
        self.subscription_group_table[config.group_name] = config

    def delete_subscription_group_config(self, group: str) -> None:
        """Remove a group's configuration; the next heartbeat may create it again."""
        self.subscription_group_table.pop(group, None)

    def disable_consume(self, group: str) -> None:
        """Refuse the group's pulls from now on."""
        if group in self.subscription_group_table:
            self.subscription_group_table[group].consume_enable = False

    def _may_create(self, group: str) -> bool:
        system = group.startswith(SYSTEM_GROUP_PREFIX) and self.config.enable_create_sys_group
        if not (self.config.auto_create_subscription_group or system):
            return False
        return not self.dialect.group_names_checked or _GROUP_NAME.fullmatch(group) is not None
