"""A proxy in cluster mode: it pops for clients that speak gRPC, and keeps their messages from others (`receipts`).

It is a client of the brokers, with several connections to each, any of which it uses for any of its clients. It copies
each of their heartbeats, and their ends, to the other proxies by a message to one broker after the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from simulation.broker import Broker
from simulation.client_responses import ClientAnswer
from simulation.connections import Connections, Outcome
from simulation.network import SimulatedChannel
from simulation.pop.receipts import RELEASE, SCAN, Receipt, Receipts
from simulation.popped import Handle, Pop, PoppedMessage, ProxiedHeartbeat
from simulation.process import Process, Promise
from simulation.rocketmq.client.host import BrokerError
from simulation.scheduler import MS, SECOND
from simulation.world import World

CONNECTIONS = 3
"""Connections to each broker; a real proxy has six and more."""
CHANNEL_EXPIRED = 120_000
"""A client without heartbeats for this long is dropped; milliseconds."""
CLIENT_SCAN = 10 * SECOND
LATENCY = MS
"""Latency between a client and its proxy, one way; microseconds."""
CHANGE_TIMEOUT = 3_000


class ProxiedEnd(Protocol):
    """The part of a client that its proxy calls."""

    name: str
    client_id: str
    group: str
    topics: tuple[str, ...]
    process: Process

    @property
    def pushes(self) -> bool:
        """Return whether it is a push consumer."""

    @property
    def is_connected(self) -> bool:
        """Return whether its connection is open: a process that has ended has none."""


@dataclass(slots=True)
class Registered:
    """A client of the proxy."""

    client: ProxiedEnd
    heard_at: int
    """When its last heartbeat came; epoch milliseconds of true time."""


class Endpoint:
    """One of the proxy's connections to each broker. Implements `ConnectingClient`."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.process = process

    def connected(self, broker: str) -> None:
        """Do nothing: the proxy's own heartbeat names no group."""

    def announce(self, broker: Broker, channel: SimulatedChannel) -> None:
        """Do nothing."""

    def notified(self) -> None:
        """Do nothing."""

    def wake(self) -> None:
        """Do nothing: it has no queues."""

    def running_info(self, reply: Callable[[ClientAnswer], None]) -> None:
        """Do nothing: no broker lists it in a group."""


class Proxy:
    """A proxy that runs."""

    def __init__(self, name: str, brokers: dict[str, Broker], world: World) -> None:
        self.name = name
        self.process = Process(world.scheduler)
        self._world = world
        self._brokers = list(brokers)
        ends = [Endpoint(f"{name}#{number}", self.process) for number in range(1, CONNECTIONS + 1)]
        self._connections = [Connections(end, brokers, world) for end in ends]
        self._turn = self._copies = 0
        self._clients: dict[str, Registered] = {}
        self._receipts = Receipts()

    def start(self) -> None:
        """Begin to renew messages, and to look for clients that are gone."""
        self.process.after(SCAN * MS, self._renew)
        self.process.after(CLIENT_SCAN, self._scan)

    # Requests of clients; each arrives after the latency

    def heartbeat(self, client: ProxiedEnd) -> None:
        """Take a client's heartbeat, and copy it."""
        self._clients[client.client_id] = Registered(client, self._world.true_ms)
        self._copy(client, registers=True)

    def terminate(self, client: ProxiedEnd) -> None:
        """Take a client's end, and copy it."""
        self._drop(client.client_id)

    def receive(
        self, client: ProxiedEnd, pop: Pop, broker: str, *, renewed: bool
    ) -> Promise[list[PoppedMessage] | None]:
        """Pop for a client; renew what it gets, if it is one that is pushed.

        Returns:
            Its messages; None: the POP failed, as the broker refused it or is gone.
        """
        promise: Promise[list[PoppedMessage] | None] = Promise()
        answered = self._next().pull(broker, partial(_pop, pop))
        answered.then(lambda: self.process.spawn(self._deliver(answered, client, promise, renewed=renewed)))
        return promise

    def ack(self, client: ProxiedEnd, message: PoppedMessage) -> None:
        """Acknowledge a message that a client has consumed."""
        handle = self._receipts.finish(client.client_id, message)
        self._next().send(handle.queue.broker, lambda b, channel: b.pops.ack(channel, client.group, handle))

    def change(self, client: ProxiedEnd, message: PoppedMessage, invisible_ms: int) -> None:
        """Change when a message that a client has refused comes back."""
        handle = self._receipts.finish(client.client_id, message)
        self._change(client.group, handle, invisible_ms)

    def is_alive(self, client_id: str) -> bool:
        """Return whether the proxy lists the client."""
        return client_id in self._clients

    async def _deliver(
        self,
        answered: Promise[list[PoppedMessage]],
        client: ProxiedEnd,
        promise: Promise[list[PoppedMessage] | None],
        *,
        renewed: bool,
    ) -> None:
        try:
            messages = await answered
        except BrokerError:
            self.process.after(LATENCY, partial(client.process.run, partial(promise.resolve, None)))
            return
        if not client.is_connected:  # the stream to it is closed: each is given back
            for message in messages:
                self._change(client.group, message.handle, RELEASE)
            return
        if renewed:
            for message in messages:
                self._receipts.add(self._world.true_ms, client.group, client.client_id, message)
        self.process.after(LATENCY, partial(client.process.run, partial(promise.resolve, messages)))

    def _renew(self) -> None:
        self._receipts.renew(self._world.true_ms, self._change_receipt)
        self.process.after(SCAN * MS, self._renew)

    def _scan(self) -> None:
        now = self._world.true_ms
        for client_id in [c for c, one in self._clients.items() if now - one.heard_at > CHANNEL_EXPIRED]:
            self._drop(client_id)
        self.process.after(CLIENT_SCAN, self._scan)

    def _drop(self, client_id: str) -> None:
        registered = self._clients.pop(client_id, None)
        if registered is not None:
            self._copy(registered.client, registers=False)
            self._receipts.drop(client_id, self._change_receipt)

    def _change_receipt(self, receipt: Receipt, invisible_ms: int) -> None:
        """Change a receipt's message, and use the new handle from then on."""
        self.process.spawn(self._await_change(receipt, invisible_ms))

    async def _await_change(self, receipt: Receipt, invisible_ms: int) -> None:
        group, old = receipt.group, receipt.handle
        try:
            receipt.handle = await self._next().request(
                old.queue.broker,
                lambda b, channel: b.pops.change_invisible_time(channel, group, old, invisible_ms),
                CHANGE_TIMEOUT,
            )
        except BrokerError:
            return

    def _change(self, group: str, handle: Handle, invisible_ms: int) -> None:
        self._next().send(
            handle.queue.broker,
            lambda b, channel: _change(b, channel, group, handle, invisible_ms),
        )

    def _copy(self, client: ProxiedEnd, *, registers: bool) -> None:
        """Send a copy of a heartbeat to one broker after the other."""
        self._copies += 1
        broker = self._brokers[self._copies % len(self._brokers)]
        topics = client.topics if registers else ()
        heartbeat = ProxiedHeartbeat(client.group, client.client_id, self.name, registers, topics, client.pushes)
        self._next().send(broker, lambda b, channel: b.proxy_heart_beat(channel, heartbeat))

    def _next(self) -> Connections:
        self._turn += 1
        return self._connections[self._turn % CONNECTIONS]


def _pop(pop: Pop, broker: Broker, channel: SimulatedChannel, outcome: Outcome[list[PoppedMessage]]) -> None:
    """Pop by the broker's clock: a proxy sends no time."""
    broker.pops.pop(channel, pop._replace(born=broker.clock.now()), outcome)


def _change(broker: Broker, channel: SimulatedChannel, group: str, handle: Handle, invisible_ms: int) -> None:
    broker.pops.change_invisible_time(channel, group, handle, invisible_ms)
