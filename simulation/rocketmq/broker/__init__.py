"""Model what a broker does with requests: heartbeats, lists of members, committed offsets, notifications.

Members and locks are in `rebalance_model.broker`, by which the observer decides, too.
"""

from simulation.rocketmq.broker.client_manage_processor import ClientManageProcessor, HeartbeatData, HeartbeatReply
from simulation.rocketmq.broker.consumer_ids_change_listener import ConsumerIdsChangeListener, NotifyConsumerIdsChanged
from simulation.rocketmq.broker.consumer_manage_processor import ConsumerManageProcessor
from simulation.rocketmq.broker.consumer_offset_manager import ConsumerOffsetManager
from simulation.rocketmq.broker.subscription_group_config import SubscriptionGroupConfig, SubscriptionGroupManager

__all__ = [
    "ClientManageProcessor",
    "ConsumerIdsChangeListener",
    "ConsumerManageProcessor",
    "ConsumerOffsetManager",
    "HeartbeatData",
    "HeartbeatReply",
    "NotifyConsumerIdsChanged",
    "SubscriptionGroupConfig",
    "SubscriptionGroupManager",
]
