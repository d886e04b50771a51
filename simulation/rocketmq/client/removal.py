"""Remove a queue at a client (removeUnnecessaryMessageQueue).

An ordered queue must not be unlocked while its listener runs: another client would start, and the order would break.
5.x keeps such a queue in the table, dropped, and tries again at every rebalance; 20 s after its last lock it removes
the queue regardless. So a queue that is assigned again in the meantime is a zombie: it is in the table, dropped, and
not consumed.
"""

from functools import partial

from rebalance_model.client import UNLOCK_DELAY
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client.cached_messages import CachingProcessQueue
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.consumer_config import ConsumerKind
from simulation.rocketmq.client.queue_locks import unlock

LISTENER_WAIT = 500
"""The time that the removal waits for a running listener; milliseconds."""
LISTENER_WAIT_4_9 = 1_000


async def remove_unnecessary_message_queue(
    consumer: Consumer, queue: MessageQueue, process_queue: CachingProcessQueue
) -> bool:
    """Commit the offset and remove the queue.

    Returns:
        False: a listener is running, and the queue stays in the table.
    """
    config = consumer.config
    consumer.offset_store.persist(queue)
    if not (config.kind is ConsumerKind.PUSH and config.orderly and config.clustering):
        consumer.offset_store.remove_offset(queue)
        return True
    if consumer.dialect.forced_unlock:
        removed = await _unlock_or_force(consumer, queue, process_queue)
    else:
        consumer.offset_store.remove_offset(queue)
        removed = await _unlock_or_delay(consumer, queue, process_queue)
    if not removed:
        process_queue.try_unlock_times += 1
    return removed


async def remove_process_queue(consumer: Consumer, queue: MessageQueue) -> None:
    """Remove a queue whose offset was corrected (removeProcessQueue), even while its listener runs."""
    process_queue = consumer.process_queue_table.pop(queue, None)
    if process_queue is not None:
        process_queue.dropped = True
        await remove_unnecessary_message_queue(consumer, queue, process_queue)


async def _unlock_or_force(consumer: Consumer, queue: MessageQueue, process_queue: CachingProcessQueue) -> bool:
    """Unlock the queue, or drop it 20 s after its last lock: since 5.2 (tryRemoveOrderMessageQueue)."""
    force = process_queue.is_unlock_forced(consumer.host.now())
    if not force and not await _stop_listeners(consumer, process_queue, LISTENER_WAIT):
        return False
    consumer.offset_store.persist(queue)
    consumer.offset_store.remove_offset(queue)
    process_queue.locked = False
    unlock(consumer, queue)
    if not force:
        process_queue.consume_lock.release_write()
    return True


async def _unlock_or_delay(consumer: Consumer, queue: MessageQueue, process_queue: CachingProcessQueue) -> bool:
    """Unlock the queue now, or after a delay while its listener runs: until 5.1 (unlockDelay)."""
    if not await _stop_listeners(consumer, process_queue, LISTENER_WAIT_4_9):
        return False
    if process_queue.has_temp_message:
        consumer.host.later(UNLOCK_DELAY, partial(_unlock_now, consumer, queue))
    else:
        unlock(consumer, queue)
    process_queue.consume_lock.release_write()
    return True


async def _unlock_now(consumer: Consumer, queue: MessageQueue) -> None:
    unlock(consumer, queue)


async def _stop_listeners(consumer: Consumer, process_queue: CachingProcessQueue, timeout: int) -> bool:
    """Take the write lock, waiting for a running listener for at most `timeout` milliseconds."""
    if process_queue.consume_lock.try_write():
        return True
    await consumer.host.released(process_queue.consume_lock, timeout)
    return process_queue.consume_lock.try_write()
