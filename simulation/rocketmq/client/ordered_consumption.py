"""Consume in order (ConsumeMessageOrderlyService): three locks, and timers that retry when one is missing.

1. the broker's lock of the queue, which excludes other clients: trusted for 30 s, renewed every 20 s;
2. the client's own lock of the queue (MessageQueueLock): one thread at a time, also across two process queues of it;
3. the process queue's consume lock: removal of the queue waits for a running listener, for a limited time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Protocol

from rebalance_model.client import CONSUME_DELAY_MAX
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client import queue_locks
from simulation.rocketmq.client.cached_messages import CachingProcessQueue, Message, NothingConsumingError
from simulation.rocketmq.client.consume_lock import ConsumeLock
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.host import BrokerError

MAX_TIME_CONSUME_CONTINUOUSLY = 60_000
"""rocketmq.client.maxTimeConsumeContinuously: a busy queue releases its thread after this, for 10 ms; milliseconds."""
LOCK_DELAY_AT_START = 100
LOCK_DELAY_MEANWHILE = 10
CONSUME_DELAY_LOCKED = 10
CONSUME_DELAY_NOT_LOCKED = 3_000
CONSUME_DELAY_MIN = 10


class OrderlyStatus(StrEnum):
    """The result of a listener (ConsumeOrderlyStatus); COMMIT and ROLLBACK apply only without autoCommit."""

    SUCCESS = "SUCCESS"
    ROLLBACK = "ROLLBACK"
    COMMIT = "COMMIT"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


@dataclass(slots=True)
class OrderlyContext:
    """The context that a listener may change (ConsumeOrderlyContext)."""

    message_queue: MessageQueue
    auto_commit: bool = True
    suspend_current_queue_time_millis: int = -1
    """-1: as configured; clamped to 10 ms to 30 s."""


class OrderlyListener(Protocol):
    """The user's message listener."""

    async def consume_message(self, messages: Sequence[Message], context: OrderlyContext) -> OrderlyStatus | None:
        """Consume the messages; return None for a null result or an exception, which both mean SUSPEND."""


class OrderedConsumption:
    """The consume service of an ordered consumer."""

    def __init__(self, consumer: Consumer, listener: OrderlyListener) -> None:
        self._consumer = consumer
        self._listener = listener
        self._stopped = False
        self._message_queue_locks: dict[MessageQueue, ConsumeLock] = {}

    def submit_consume_request(
        self, messages: Sequence[Message], process_queue: CachingProcessQueue, queue: MessageQueue, *, dispatch: bool
    ) -> None:
        """Start consuming unless a thread already does; messages are taken from the process queue."""
        del messages
        if dispatch:
            self._consumer.host.later(0, partial(self.consume, process_queue, queue))

    async def lock_periodically(self) -> None:
        """Renew all locks (CLUSTERING): after `queue_locks.LOCK_INITIAL_DELAY`, then every LOCK_INTERVAL."""
        if not self._stopped:
            await queue_locks.lock_all(self._consumer)

    async def shutdown(self) -> None:
        """Accept no more work and unlock all queues; the caller commits the offsets afterwards."""
        self._stopped = True
        if self._consumer.config.clustering:
            await queue_locks.unlock_all(self._consumer)

    async def consume(self, process_queue: CachingProcessQueue, queue: MessageQueue) -> None:
        """Consume a queue until it has no messages (ConsumeRequest.run)."""
        if process_queue.dropped:
            return
        lock = self._message_queue_locks.setdefault(queue, ConsumeLock())
        while not lock.try_write():
            await self._consumer.host.released(lock, None)
        try:
            if not self._consumer.config.clustering or self._locked(process_queue):
                await self._consume_continuously(process_queue, queue)
            elif not process_queue.dropped:
                self._lock_later(process_queue, queue, LOCK_DELAY_AT_START)
        except NothingConsumingError:
            # An operator reset the offset while the listener ran. Java's thread ends here, too, and since `consuming`
            # stays set no other thread is started for this process queue.
            return
        finally:
            lock.release_write()

    async def _consume_continuously(self, process_queue: CachingProcessQueue, queue: MessageQueue) -> None:
        host, config = self._consumer.host, self._consumer.config
        began = host.now()
        while not process_queue.dropped:
            if config.clustering and not self._locked(process_queue):
                return self._lock_later(process_queue, queue, LOCK_DELAY_MEANWHILE)
            if host.now() - began > MAX_TIME_CONSUME_CONTINUOUSLY:
                return self._consume_later(process_queue, queue, CONSUME_DELAY_MIN)
            messages = process_queue.take_messages(config.consume_message_batch_max_size, host.now())
            if not messages or not await self._consume_batch(messages, process_queue, queue):
                return None
        return None

    async def _consume_batch(
        self, messages: Sequence[Message], process_queue: CachingProcessQueue, queue: MessageQueue
    ) -> bool:
        """Call the listener under the consume lock and apply its result; return False to stop consuming."""
        context = OrderlyContext(queue)
        while not process_queue.consume_lock.try_read():
            await self._consumer.host.released(process_queue.consume_lock, None)
        try:
            if process_queue.dropped:
                return False  # taken messages stay taken
            status = await self._listener.consume_message(messages, context)
        finally:
            process_queue.consume_lock.release_read()
        return await self._process_result(messages, process_queue, context, status)

    async def _process_result(
        self,
        messages: Sequence[Message],
        process_queue: CachingProcessQueue,
        context: OrderlyContext,
        status: str | None,
    ) -> bool:
        """Commit, or suspend the queue (processConsumeResult); return False if suspended."""
        delay = context.suspend_current_queue_time_millis
        queue = context.message_queue
        commit = context.auto_commit or status == OrderlyStatus.COMMIT
        if status in (None, OrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT):
            if await self._must_suspend(messages, queue):
                process_queue.make_message_to_consume_again(messages)
                self._consume_later(process_queue, queue, delay)
                return False
        elif status == OrderlyStatus.ROLLBACK and not context.auto_commit:
            process_queue.rollback()
            self._consume_later(process_queue, queue, delay)
            return False
        if commit:
            offset = process_queue.commit()
            if not process_queue.dropped:
                self._consumer.offset_store.update_offset(queue, offset, increase_only=False)
        return True

    async def _must_suspend(self, messages: Sequence[Message], queue: MessageQueue) -> bool:
        """Return whether a message must be retried here: it has attempts left, or the retry topic did not accept it."""
        suspend = False
        for message in messages:
            if message.reconsume_times < self._consumer.config.orderly_max_reconsume_times or not (
                await self._sent_to_retry_topic(queue, message)
            ):
                message.reconsume_times += 1
                suspend = True
        return suspend

    async def _sent_to_retry_topic(self, queue: MessageQueue, message: Message) -> bool:
        try:
            await self._consumer.brokers.send_to_retry_topic(self._consumer.config.group, queue, message)
        except BrokerError:
            return False
        return True

    def _locked(self, process_queue: CachingProcessQueue) -> bool:
        return process_queue.trusts_lock(self._consumer.host.now())

    def _lock_later(self, process_queue: CachingProcessQueue, queue: MessageQueue, delay: int) -> None:
        """Request the lock after a delay, then consume (tryLockLaterAndReconsume)."""
        self._consumer.host.later(delay, partial(self._lock_and_consume, process_queue, queue))

    async def _lock_and_consume(self, process_queue: CachingProcessQueue, queue: MessageQueue) -> None:
        locked = not self._stopped and await queue_locks.lock(self._consumer, queue)
        self._consume_later(process_queue, queue, CONSUME_DELAY_LOCKED if locked else CONSUME_DELAY_NOT_LOCKED)

    def _consume_later(self, process_queue: CachingProcessQueue, queue: MessageQueue, delay: int) -> None:
        """Consume again after a delay, clamped to its limits (submitConsumeRequestLater)."""
        if delay == -1:
            delay = self._consumer.config.suspend_current_queue_time_millis
        delay = min(max(delay, CONSUME_DELAY_MIN), CONSUME_DELAY_MAX)
        self._consumer.host.later(delay, partial(self.consume, process_queue, queue))
