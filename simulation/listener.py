"""The user's listener in a simulated consumer, and its faults."""

from collections.abc import Callable, Sequence

from rebalance_model.entities import MessageQueue
from simulation.blocked_calls import BlockedCalls
from simulation.process import Process
from simulation.rocketmq.client.cached_messages import Message
from simulation.rocketmq.client.concurrent_consumption import ConcurrentlyContext, ConcurrentlyStatus
from simulation.rocketmq.client.ordered_consumption import OrderlyContext, OrderlyStatus
from simulation.scheduler import MS

Consumed = Callable[[MessageQueue, range, tuple[int, int]], None]


class Behaviour:
    """The way in which the listener handles messages: it takes time, hangs, or refuses one of them."""

    def __init__(self, process: Process, work: int, consumed: Consumed, done: Callable[[MessageQueue], None]) -> None:
        self.work = work
        """Microseconds for a batch."""
        self._process = process
        self._done = done
        self.consumed = consumed
        """Called with accepted messages and the times of the first and the last of them (epoch milliseconds)."""
        self._hangs: int | None = None
        self._poisons: int | None = None
        self._poisoned: tuple[MessageQueue, int] | None = None
        self._blocked = BlockedCalls(process)

    @property
    def well(self) -> bool:
        """Return whether the listener consumes every message."""
        return self._hangs is None and self._poisons is None

    def hang(self, queue_id: int) -> None:
        """Block from the next message on, of one queue or of all (`ANY`)."""
        self._hangs = queue_id

    def poison(self, queue_id: int) -> None:
        """Refuse the next message, of one queue or of all (`ANY`)."""
        self._poisons = queue_id

    def behave(self) -> None:
        """Work normally again; release blocked calls."""
        self._hangs = self._poisons = self._poisoned = None
        self._blocked.release()

    async def accepts(self, messages: Sequence[Message], queue: MessageQueue) -> bool:
        """Return whether the messages are consumed, once the listener has finished."""
        if self._hangs in (ANY, queue.queue_id) and not queue.is_retry:
            await self._blocked.wait()
        await self._process.sleep_until(self._process.scheduler.now + self.work)
        first = messages[0].queue_offset
        if self._poisoned is None and self._poisons in (ANY, queue.queue_id) and not queue.is_retry:
            self._poisoned = queue, first
        if self._poisoned is not None and any((queue, one.queue_offset) == self._poisoned for one in messages):
            return False
        now = self._process.scheduler.now // MS
        self.consumed(queue, range(first, messages[-1].queue_offset + 1), (now, now))
        self._done(queue)
        return True


ANY = -1
"""Every queue."""


class OrderedListener:
    """An ordered listener: a refused message blocks its queue and is offered again and again."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    async def consume_message(self, messages: Sequence[Message], context: OrderlyContext) -> OrderlyStatus:
        """Consume a batch (MessageListenerOrderly.consumeMessage)."""
        if await self._behaviour.accepts(messages, context.message_queue):
            return OrderlyStatus.SUCCESS
        return OrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT


class ConcurrentListener:
    """A concurrent listener: a refused message goes to the retry topic; the queue continues."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    async def consume_message(self, messages: Sequence[Message], context: ConcurrentlyContext) -> ConcurrentlyStatus:
        """Consume a batch (MessageListenerConcurrently.consumeMessage)."""
        accepted = await self._behaviour.accepts(messages, context.message_queue)
        return ConcurrentlyStatus.CONSUME_SUCCESS if accepted else ConcurrentlyStatus.RECONSUME_LATER
