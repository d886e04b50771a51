"""Model the client's side of rebalance: its share, its locks, its pulls, consumption and commits.

A process queue has the messages pulled from one queue. An ordered listener takes messages in batches, and the
committed offset follows the consumed messages:

>>> from simulation.rocketmq.client import CachingProcessQueue, Message
>>> held = CachingProcessQueue.created(now=0)
>>> held.put_message([Message(offset) for offset in range(100, 103)])
True
>>> [message.queue_offset for message in held.take_messages(batch_size=2, now=10)]
[100, 101]
>>> held.commit()
102
>>> held.msg_count
1

What it decides by its stamps alone is in `rebalance_model.client.ProcessQueue`, which an observer has, too.

Every ``now`` is the client's clock in milliseconds. The module `rebalance` performs a whole rebalance of one consumer;
the brokers and the process around it are the protocols `Brokers` and `Host`.
"""

from simulation.rocketmq.client.cached_messages import CachingProcessQueue, Message, ProcessQueueInfo
from simulation.rocketmq.client.concurrent_consumption import ConcurrentConsumption
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.consumer_config import ConsumeFromWhere, ConsumerConfig, ConsumerKind, MessageModel
from simulation.rocketmq.client.host import BrokerError, Brokers, Host, OffsetNotFoundError, RefusedError
from simulation.rocketmq.client.offset_store import LocalFileOffsetStore, OffsetStore, RemoteBrokerOffsetStore
from simulation.rocketmq.client.ordered_consumption import OrderedConsumption
from simulation.rocketmq.client.pull_request import PopProcessQueue
from simulation.rocketmq.client.rebalance_service import RebalanceService, do_rebalance

__all__ = [
    "BrokerError",
    "Brokers",
    "CachingProcessQueue",
    "ConcurrentConsumption",
    "ConsumeFromWhere",
    "Consumer",
    "ConsumerConfig",
    "ConsumerKind",
    "Host",
    "LocalFileOffsetStore",
    "Message",
    "MessageModel",
    "OffsetNotFoundError",
    "OffsetStore",
    "OrderedConsumption",
    "PopProcessQueue",
    "ProcessQueueInfo",
    "RebalanceService",
    "RefusedError",
    "RemoteBrokerOffsetStore",
    "do_rebalance",
]
