"""The client's side of the broker's queue locks (RebalanceImpl.lock, lockAll, unlock, unlockAll).

The lock is stored at the broker's master; a process queue only records whether and when it was granted.
"""

from collections import defaultdict

from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.host import BrokerError

LOCK_INITIAL_DELAY = 1_000
"""The delay of the first renewal; milliseconds."""


async def lock(consumer: Consumer, queue: MessageQueue) -> bool:
    """Lock one queue at its broker; return False if it is refused or not answered.

    A queue that is about to be added is not in the table yet, so nothing is marked here.
    """
    try:
        granted = await consumer.brokers.lock_batch_mq(queue.broker, consumer.config.group, {queue})
    except BrokerError:
        return False
    for held in granted:
        process_queue = consumer.process_queue_table.get(held)
        if process_queue is not None:
            process_queue.locked = True
            process_queue.last_lock_timestamp = consumer.host.now()
    return queue in granted


async def lock_all(consumer: Consumer) -> None:
    """Renew the locks of all queues, one broker at a time; a broker that does not answer changes nothing."""
    for broker, queues in _by_broker(consumer).items():
        try:
            granted = await consumer.brokers.lock_batch_mq(broker, consumer.config.group, queues)
        except BrokerError:
            continue
        for queue in queues:
            process_queue = consumer.process_queue_table.get(queue)
            if process_queue is None:
                continue  # dropped while the request was in progress
            process_queue.locked = queue in granted
            if process_queue.locked:
                process_queue.last_lock_timestamp = consumer.host.now()


def unlock(consumer: Consumer, queue: MessageQueue) -> None:
    """Unlock one queue, one-way."""
    consumer.brokers.unlock_batch_mq_one_way(queue.broker, consumer.config.group, {queue})


async def unlock_all(consumer: Consumer) -> None:
    """Unlock all queues at shutdown, and wait for the answers."""
    for broker, queues in _by_broker(consumer).items():
        try:
            await consumer.brokers.unlock_batch_mq(broker, consumer.config.group, queues)
        except BrokerError:
            continue
        for queue in queues:
            process_queue = consumer.process_queue_table.get(queue)
            if process_queue is not None:
                process_queue.locked = False


def _by_broker(consumer: Consumer) -> dict[str, set[MessageQueue]]:
    queues: defaultdict[str, set[MessageQueue]] = defaultdict(set)
    for queue, process_queue in consumer.process_queue_table.items():
        if consumer.dialect.dropped_queues_renewed or not process_queue.dropped:
            queues[queue.broker].add(queue)
    return queues
