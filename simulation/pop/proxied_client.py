"""Clients that speak gRPC to a proxy (rocketmq-client-java): push consumers, in order or not, and simple consumers."""

from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Literal

from simulation.pop.listener import GroupCode, PopListener
from simulation.pop.proxy import LATENCY, Proxy
from simulation.popped import Pop, PoppedMessage
from simulation.process import Process, ProcessState
from simulation.rocketmq.client.consumer_config import ConsumerConfig
from simulation.scheduler import SECOND
from simulation.world import World

ProxiedKind = Literal["PUSH", "FIFO", "SIMPLE"]
HEARTBEAT = 10 * SECOND
PUSH_POLL = 20_000
"""Milliseconds."""
PUSH_INVISIBLE = 60_000
BATCH = 32
SIMPLE_BATCH = 16
SIMPLE_POLL = 15_000
CACHE_MAX = 1_024
"""Messages of a broker's topic that a push consumer has at most."""
NACK_DELAYS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Seconds until a refused message comes back, by how often it did before (CustomizedRetryPolicy)."""
RETRY_DELAY = 3 * SECOND
"""Pause after a failed receive; microseconds."""


@dataclass(frozen=True)
class ProxiedSettings:
    """Settings of one client."""

    name: str
    group: str
    client_id: str
    topics: tuple[str, ...]
    kind: ProxiedKind = "PUSH"
    work: int = 5_000
    """Microseconds that the listener takes for a message."""
    threads: int = 20
    invisible_ms: int = PUSH_INVISIBLE
    """Invisible time of a simple consumer's messages; milliseconds."""
    code: GroupCode = field(default_factory=GroupCode)

    @property
    def config(self) -> ConsumerConfig:
        """The client's group and id."""
        return ConsumerConfig(self.group, self.client_id)


class SimulatedProxiedClient:
    """One run of a client process."""

    def __init__(self, settings: ProxiedSettings, proxy: Proxy, brokers: list[str], world: World) -> None:
        self.settings = settings
        self.name = settings.name
        self.group, self.client_id, self.topics = settings.group, settings.client_id, settings.topics
        self.process = Process(world.scheduler)
        self.listener = PopListener(self.process, settings.work, settings.threads, settings.code)
        self._world = world
        self._proxy = proxy
        self._brokers = brokers
        self._cached = 0

    @property
    def is_connected(self) -> bool:
        """Return whether its connection to the proxy is open: also while it is frozen."""
        return self.process.state is not ProcessState.DEAD

    @property
    def pushes(self) -> bool:
        """Return whether it is a push consumer."""
        return self.settings.kind != "SIMPLE"

    def start(self) -> None:
        """Announce the client, and begin to receive."""
        self._send_heartbeat()
        receive = self._receive_simply if self.settings.kind == "SIMPLE" else self._receive
        for topic in self.topics:
            for broker in self._brokers:
                self.process.spawn(receive(topic, broker))

    def shutdown(self) -> None:
        """Stop cleanly: tell the proxy."""
        self._world.scheduler.after(LATENCY, partial(self._proxy.terminate, self))
        self.kill()

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()

    def freeze(self) -> None:
        """Stop the process."""
        self.process.freeze()

    def thaw(self) -> None:
        """Continue a frozen process."""
        self.process.thaw()

    def hang(self, _: int) -> None:
        """Let the listener block."""
        self.listener.hang()

    def poison(self, queue_id: int) -> None:
        """Let the group's listeners refuse one message."""
        self.settings.code.poison(queue_id)

    def behave(self) -> None:
        """Let the listener work normally again."""
        self.listener.behave()

    def _send_heartbeat(self) -> None:
        self.process.after(LATENCY, partial(self._proxy.heartbeat, self))
        self.process.after(HEARTBEAT, self._send_heartbeat)

    async def _receive(self, topic: str, broker: str) -> None:
        """Receive for a push consumer, as long as its cache has room."""
        order = self.settings.kind == "FIFO"
        pop = Pop(self.group, topic, -1, BATCH, PUSH_INVISIBLE, PUSH_POLL, 0, order=order)
        while True:
            if self._cached >= CACHE_MAX:
                await self._sleep(SECOND)
                continue
            await self._sleep(LATENCY)
            messages = await self._proxy.receive(self, pop, broker, renewed=True)
            if messages is None:
                await self._sleep(RETRY_DELAY)
                continue
            self._cached += len(messages)
            if order:
                for _, queue in groupby(messages, lambda one: one.handle.queue):
                    self.listener.submit(partial(self._consume_in_order, list(queue)))
            else:
                for one in messages:
                    self.listener.submit(partial(self._consume, one))

    async def _consume(self, message: PoppedMessage) -> None:
        if await self.listener.accepts(message):
            self._later(partial(self._proxy.ack, self, message))
        else:
            delay = NACK_DELAYS[min(message.reconsume_times, len(NACK_DELAYS) - 1)] * 1_000
            self._later(partial(self._proxy.change, self, message, delay))
        self._cached -= 1

    async def _consume_in_order(self, messages: list[PoppedMessage]) -> None:
        """Consume messages of one queue one after the other; a refused one is tried again here, without a request."""
        for message in messages:
            attempt = 0
            while not await self.listener.accepts(message):
                await self._sleep(NACK_DELAYS[min(attempt, len(NACK_DELAYS) - 1)] * SECOND)
                attempt += 1
            self._later(partial(self._proxy.ack, self, message))
            self._cached -= 1

    async def _receive_simply(self, topic: str, broker: str) -> None:
        """Run a simple consumer's application: receive, work, acknowledge."""
        pop = Pop(self.group, topic, -1, SIMPLE_BATCH, self.settings.invisible_ms, SIMPLE_POLL, 0)
        while True:
            await self._sleep(LATENCY)
            messages = await self._proxy.receive(self, pop, broker, renewed=False)
            if messages is None:
                await self._sleep(RETRY_DELAY)
            for one in messages or ():
                if await self.listener.accepts(one) and self.listener.acknowledges:
                    self._later(partial(self._proxy.ack, self, one))

    def _later(self, call: "partial[None]") -> None:
        """Send a request to the proxy: it arrives, whatever becomes of this process."""
        self._world.scheduler.after(LATENCY, call)

    async def _sleep(self, time: int) -> None:
        await self.process.sleep_until(self._world.scheduler.now + time)
