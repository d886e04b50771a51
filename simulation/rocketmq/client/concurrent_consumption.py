"""Consume without order (ConsumeMessageConcurrentlyService), and the rule that causes duplicates.

The listener's result for a queue that was dropped in the meantime is discarded: no offset is recorded, nothing is sent
back, and the next owner consumes the messages again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Protocol

from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client.cached_messages import CachingProcessQueue, Message
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.host import BrokerError

SEND_BACK_RETRY_DELAY = 5_000
EXPIRED_AT_ONCE_MAX = 16
EXPIRED_DELAY_LEVEL = 3
"""10 s: level 3 of the broker's messageDelayLevel."""
MINUTE = 60_000


class ConcurrentlyStatus(StrEnum):
    """The result of a listener (ConsumeConcurrentlyStatus)."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


@dataclass(slots=True)
class ConcurrentlyContext:
    """The context that a listener may change (ConsumeConcurrentlyContext)."""

    message_queue: MessageQueue
    delay_level_when_next_consume: int = 0
    """0: the broker's choice; -1: directly to the dead-letter topic."""
    ack_index: int = 2**31 - 1
    """The last message that was consumed, counted from 0; -1: none."""


class ConcurrentlyListener(Protocol):
    """The user's message listener."""

    async def consume_message(
        self, messages: Sequence[Message], context: ConcurrentlyContext
    ) -> ConcurrentlyStatus | None:
        """Consume the messages; return None for a null result or an exception, which both mean RECONSUME_LATER."""


class ConcurrentConsumption:
    """The consume service of a concurrent consumer."""

    def __init__(self, consumer: Consumer, listener: ConcurrentlyListener) -> None:
        self._consumer = consumer
        self._listener = listener

    def submit_consume_request(
        self,
        messages: Sequence[Message],
        process_queue: CachingProcessQueue,
        queue: MessageQueue,
        *,
        dispatch: bool = True,
    ) -> None:
        """Submit the messages for consumption in batches, each on any free thread."""
        del dispatch  # used by the ordered service only
        size = self._consumer.config.consume_message_batch_max_size
        for start in range(0, len(messages), size):
            batch = list(messages[start : start + size])
            self._consumer.host.later(0, partial(self.consume, batch, process_queue, queue))

    async def consume(self, messages: list[Message], process_queue: CachingProcessQueue, queue: MessageQueue) -> None:
        """Call the listener with one batch, and apply its result (ConsumeRequest.run)."""
        if process_queue.dropped:
            return
        context = ConcurrentlyContext(queue)
        for message in messages:
            message.consume_start = self._consumer.host.now()
        status = await self._listener.consume_message(messages, context)
        if process_queue.dropped:
            return
        acknowledged = context.ack_index + 1 if status == ConcurrentlyStatus.CONSUME_SUCCESS else 0
        retried = await self._send_back(messages[acknowledged:], process_queue, context)
        self._finish([message for message in messages if message not in retried], process_queue, queue)

    async def clean_expired_messages(self) -> None:
        """Send back messages whose listener takes too long; every `consume_timeout` minutes (cleanExpireMsg)."""
        for queue, process_queue in list(self._consumer.process_queue_table.items()):
            for _ in range(min(len(process_queue.msg_tree_map), EXPIRED_AT_ONCE_MAX)):
                message = self._expired(process_queue)
                if message is None:
                    break
                # A failure uses up one of the 16 attempts, and the next one is for the same message.
                if await self._sent_back(message, queue, EXPIRED_DELAY_LEVEL):
                    first = process_queue.msg_tree_map.offsets[:1]
                    if first == [message.queue_offset]:
                        process_queue.remove_message([message], self._consumer.host.now())

    def _finish(self, messages: list[Message], process_queue: CachingProcessQueue, queue: MessageQueue) -> None:
        offset = process_queue.remove_message(messages, self._consumer.host.now())
        if offset >= 0 and not process_queue.dropped:
            self._consumer.offset_store.update_offset(queue, offset, increase_only=True)

    async def _send_back(
        self, failed: list[Message], process_queue: CachingProcessQueue, context: ConcurrentlyContext
    ) -> list[Message]:
        """Send failed messages back; those of a BROADCASTING consumer are lost.

        Returns:
            The messages that could not be sent: they stay, and are consumed here again after 5 s.
        """
        if not self._consumer.config.clustering:
            return []
        retried = []
        for message in failed:
            if self._consumer.dialect.send_back_checked and not process_queue.contains_message(message):
                continue  # the clean-up has already sent it back
            if not await self._sent_back(message, context.message_queue, context.delay_level_when_next_consume):
                message.reconsume_times += 1
                retried.append(message)
        if retried:
            again = partial(self._submit_again, retried, process_queue, context.message_queue)
            self._consumer.host.later(SEND_BACK_RETRY_DELAY, again)
        return retried

    async def _submit_again(
        self, messages: list[Message], process_queue: CachingProcessQueue, queue: MessageQueue
    ) -> None:
        self.submit_consume_request(messages, process_queue, queue)

    async def _sent_back(self, message: Message, queue: MessageQueue, delay_level: int) -> bool:
        try:
            await self._consumer.brokers.send_message_back(self._consumer.config.group, queue, message, delay_level)
        except BrokerError:
            return False
        return True

    def _expired(self, process_queue: CachingProcessQueue) -> Message | None:
        """Return the first message if its listener has run for too long, else None."""
        message = next(iter(process_queue.msg_tree_map), None)
        if message is None or message.consume_start is None:
            return None
        age = self._consumer.host.now() - message.consume_start
        return message if age > self._consumer.config.consume_timeout * MINUTE else None
