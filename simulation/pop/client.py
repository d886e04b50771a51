"""A client that speaks remoting and pops (DefaultMQPushConsumerImpl.popMessage, ConsumeMessagePopConcurrentlyService).

It lives in a classic client's process, whose rebalance asks a broker for its share, and whose retry topic is pulled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.events import PopProcessQueueInfo
from simulation.broker import Broker
from simulation.connections import Connections, Outcome
from simulation.network import SimulatedChannel
from simulation.pop.listener import PopListener
from simulation.popped import Pop, PoppedMessage
from simulation.process import Process
from simulation.rocketmq.client.host import BrokerError
from simulation.rocketmq.client.pull_request import PopProcessQueue, PopRequest
from simulation.scheduler import MS, Clock

POP_THRESHOLD_FOR_QUEUE = 96
"""popThresholdForQueue: a client with more unacknowledged messages of a queue stops popping it."""
POP_BATCH = 32
POLL = 15_000
"""BROKER_SUSPEND_MAX_TIME_MILLIS; milliseconds."""
FLOW_CONTROL_DELAY = 500
"""A full client tries again after this time, milliseconds; a real one after 20, which only costs more."""
EXCEPTION_DELAY = 3_000
NACK_DELAYS = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Seconds until a refused message comes back, by how often it did before (popDelayLevel)."""


@dataclass(frozen=True)
class PopSettings:
    """The settings by which one client pops."""

    group: str
    invisible_ms: int = 60_000
    """popInvisibleTime."""
    threads: int = 20


class PopService:
    """Pops the queues of one client, and consumes what it gets."""

    def __init__(
        self,
        process: Process,
        clock: Clock,
        connections: Connections,
        listener: PopListener,
        settings: PopSettings,
    ) -> None:
        self.listener = listener
        self._group = settings.group
        self._process = process
        self._clock = clock
        self._connections = connections
        self._settings = settings

    def pop_later(self, request: PopRequest, delay: int) -> None:
        """Begin to pop a queue after a delay (milliseconds), until it is dropped."""
        self._process.after(delay * MS, lambda: self._process.spawn(self._run(request)))

    async def _run(self, request: PopRequest) -> None:
        mq, process_queue = request.message_queue, request.pop_process_queue
        while not process_queue.dropped:
            process_queue.last_pop_timestamp = self._clock.now()
            if process_queue.wait_ack_msg_count > POP_THRESHOLD_FOR_QUEUE:
                await self._sleep(FLOW_CONTROL_DELAY)
                continue
            try:
                messages = await self._pop(mq)
            except BrokerError:
                await self._sleep(EXCEPTION_DELAY)
                continue
            process_queue.wait_ack_msg_count += len(messages)
            for one in messages:
                self.listener.submit(partial(self._consume, process_queue, one))

    async def _pop(self, mq: MessageQueue) -> list[PoppedMessage]:
        settings = self._settings
        pop = Pop(self._group, mq.topic, mq.queue_id, POP_BATCH, settings.invisible_ms, POLL, self._clock.now())

        def begin(broker: Broker, channel: SimulatedChannel, outcome: Outcome[list[PoppedMessage]]) -> None:
            broker.pops.pop(channel, pop, outcome)

        return await self._connections.pull(mq.broker, begin)

    async def _consume(self, process_queue: PopProcessQueue, message: PoppedMessage) -> None:
        """Consume one message (ConsumeRequest.run): what is too old, or of a dropped share, comes back by itself."""
        if process_queue.dropped:
            return
        if self._is_too_old(message):
            process_queue.wait_ack_msg_count -= 1
            return
        accepted = await self.listener.accepts(message)
        process_queue.wait_ack_msg_count -= 1
        if process_queue.dropped or self._is_too_old(message):
            return
        broker, handle = message.handle.queue.broker, message.handle
        if accepted:
            self._send(broker, lambda b, channel: b.pops.ack(channel, self._group, handle))
            return
        delay = NACK_DELAYS[min(message.reconsume_times, len(NACK_DELAYS) - 1)] * 1_000
        self._send(broker, lambda b, channel: _change(b, channel, self._group, message, delay))

    def _send(self, broker: str, request: Callable[[Broker, SimulatedChannel], None]) -> None:
        self._connections.send(broker, request)

    def _is_too_old(self, message: PoppedMessage) -> bool:
        """Return whether other clients may get the message already, by this client's clock (isPopTimeout)."""
        return self._clock.now() - message.handle.pop_time >= message.handle.invisible_ms

    async def _sleep(self, delay: int) -> None:
        await self._process.sleep_until(self._process.scheduler.now + delay * MS)


def row(queue: MessageQueue, process_queue: PopProcessQueue) -> PopProcessQueueInfo:
    """Return one queue of the client's mqPopTable."""
    return PopProcessQueueInfo(
        topic=queue.topic,
        broker=queue.broker,
        queue_id=queue.queue_id,
        wait_ack_count=process_queue.wait_ack_msg_count,
        dropped=process_queue.dropped,
        pop_time=process_queue.last_pop_timestamp,
    )


def rows(table: dict[MessageQueue, PopProcessQueue]) -> tuple[PopProcessQueueInfo, ...]:
    """Return the client's mqPopTable."""
    return tuple(row(mq, table[mq]) for mq in sorted(table, key=queue_order))


def _change(broker: Broker, channel: SimulatedChannel, group: str, message: PoppedMessage, delay: int) -> None:
    broker.pops.change_invisible_time(channel, group, message.handle, delay)
