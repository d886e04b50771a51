"""Model the broker's side of rebalance: a group's members and the locks of ordered queues.

An ordered queue is consumed by the client that holds its lock, for 60 s after its last lock request:

>>> from rebalance_model import MessageQueue
>>> from rebalance_model.broker import RebalanceLockManager
>>> locks = RebalanceLockManager()
>>> queues = [MessageQueue("Orders", "broker-a", queue_id) for queue_id in range(2)]
>>> locks.try_lock("g", queues[0], "client-1", now=0)
True
>>> [queue.queue_id for queue in locks.try_lock_batch("g", queues, "client-2", now=60_000)]
[1]
>>> [queue.queue_id for queue in locks.try_lock_batch("g", queues, "client-2", now=60_001)]
[0, 1]
>>> locks.unlock_batch("g", queues, "client-2")
>>> locks.is_lock_all_expired("g", now=60_001)
True

Every ``now`` is the broker's clock in milliseconds. What answers requests is in the simulation,
`simulation.rocketmq.broker`.
"""

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.broker.consumer_group_info import (
    ClientChannelInfo,
    ConsumerData,
    ConsumerGroupInfo,
    SubscriptionData,
    SubscriptionError,
    build_subscription_data,
)
from rebalance_model.broker.consumer_manager import AnyConsumerGroupEvent, ConsumerManager
from rebalance_model.broker.rebalance_lock_manager import LockEntry, RebalanceLockManager

__all__ = [
    "AnyConsumerGroupEvent",
    "BrokerConfig",
    "ClientChannelInfo",
    "ConsumerData",
    "ConsumerGroupInfo",
    "ConsumerManager",
    "LockEntry",
    "RebalanceLockManager",
    "SubscriptionData",
    "SubscriptionError",
    "build_subscription_data",
]
