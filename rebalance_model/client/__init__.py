"""Model the client's side of rebalance: its share, its locks, its pulls, consumption and commits.

A process queue has the messages pulled from one queue. An ordered listener takes messages in batches, and the
committed offset follows the consumed messages:

>>> from rebalance_model.client import CachingProcessQueue, Message
>>> held = CachingProcessQueue.created(now=0)
>>> held.put_message([Message(offset) for offset in range(100, 103)])
True
>>> [message.queue_offset for message in held.take_messages(batch_size=2, now=10)]
[100, 101]
>>> held.commit()
102
>>> held.msg_count
1

What it decides by its stamps alone is in `ProcessQueue`, which an observer of a client has, too. It trusts a lock for
30 s after the broker granted it, half as long as the broker does:

>>> held.is_lock_expired(now=30_000), held.is_lock_expired(now=30_001)
(False, True)

Every ``now`` is the client's clock in milliseconds. `rebalance_model.client.rebalance` performs a whole rebalance of
one consumer; the brokers and the process around it are the protocols `Brokers` and `Host`.
"""

from rebalance_model.client.cached_messages import CachingProcessQueue, Message, ProcessQueueInfo
from rebalance_model.client.concurrent_consumption import ConcurrentConsumption
from rebalance_model.client.consumer import Consumer
from rebalance_model.client.consumer_config import ConsumeFromWhere, ConsumerConfig, ConsumerKind, MessageModel
from rebalance_model.client.host import BrokerError, Brokers, Host, OffsetNotFoundError, RefusedError
from rebalance_model.client.offset_store import LocalFileOffsetStore, OffsetStore, RemoteBrokerOffsetStore
from rebalance_model.client.ordered_consumption import OrderedConsumption
from rebalance_model.client.process_queue import PopProcessQueue, ProcessQueue
from rebalance_model.client.rebalance_service import RebalanceService, do_rebalance

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
    "ProcessQueue",
    "ProcessQueueInfo",
    "RebalanceService",
    "RefusedError",
    "RemoteBrokerOffsetStore",
    "do_rebalance",
]
