"""A client's connections to its brokers, and its requests over them (NettyRemotingClient).

A request that is not answered in time closes its connection (closeSocketIfTimeout), and on every new connection the
client sends a heartbeat at once (MQClientInstance's ChannelEventListener).
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from simulation.broker import Broker
from simulation.network import LATENCY_MAX, ClientEnd, SimulatedChannel
from simulation.process import Promise
from simulation.rocketmq.client.host import BrokerError
from simulation.scheduler import MS, Call
from simulation.world import World

T = TypeVar("T")
Request = Callable[[Broker, SimulatedChannel], T]

CONNECT_TIMEOUT = 3_000 * MS


class ConnectingClient(ClientEnd, Protocol):
    """The client that owns the connections."""

    def connected(self, broker: str) -> None:
        """Handle a new connection to a broker."""

    def announce(self, broker: Broker, channel: SimulatedChannel) -> None:
        """Send a heartbeat at the broker."""


class Connections:
    """The channels of one client, made when they are needed."""

    def __init__(self, client: "ConnectingClient", brokers: dict[str, Broker], world: World) -> None:
        self._client = client
        self._brokers = brokers
        self._world = world
        self._channels: dict[str, SimulatedChannel] = {}
        self._torn: set[str] = set()

    def known_brokers(self) -> list[str]:
        """Return the names of all brokers."""
        return list(self._brokers)

    def request(self, broker: str, request: Request[T], timeout: int) -> Promise[T]:
        """Send a request; reject with BrokerError after `timeout` milliseconds, or once no answer can come."""
        promise: Promise[T] = Promise()
        channel = self._channel_for(broker, promise)
        if channel is not None:
            deadline = self._world.scheduler.now + timeout * MS
            answer = partial(request, self._brokers[broker], channel)
            if not self._world.network.up(channel, partial(self._answer, channel, answer, promise, deadline)):
                self._give_up_at(deadline, channel, promise)
        return promise

    def send(self, broker: str, request: Request[None]) -> None:
        """Send a one-way request."""
        channel = self._channel(broker)
        if channel is not None:
            self._world.network.up(channel, partial(request, self._brokers[broker], channel))

    def pull(self, broker: str, begin: Callable[[Broker, SimulatedChannel, "Outcome[T]"], None]) -> Promise[T]:
        """Send a request that the broker answers later through a callback."""
        promise: Promise[T] = Promise()
        channel = self._channel_for(broker, promise)
        if channel is not None:
            outcome = partial(self._reply, channel, promise)
            self._world.network.up(channel, partial(begin, self._brokers[broker], channel, outcome))
        return promise

    def torn(self) -> None:
        """Mark connections that brokers closed while the process was frozen: several threads then reconnect at once.

        One of them wins; the channel of another one is left over, registered by its own first heartbeat and never used
        again. So the broker lists the client twice until the scan removes the channel (seen each time on a real 5.4.0).
        """
        self._torn = {name for name, channel in self._channels.items() if not channel.open_at_broker}

    def close(self) -> None:
        """Close all connections, as a clean end or the kernel of a killed process does."""
        for channel in self._channels.values():
            self._world.network.close_at_client(channel)
        self._channels.clear()

    def _channel_for(self, broker: str, promise: Promise[T]) -> SimulatedChannel | None:
        """Return the connection on which an answer is awaited; None if none can be made, so no answer will come."""
        channel = self._channel(broker)
        if channel is None:
            self._fail_to_connect(broker, promise)
        else:
            channel.unanswered[promise] = promise.reject
        return channel

    def _channel(self, broker: str) -> SimulatedChannel | None:
        """Return an open connection; None if none can be made."""
        channel = self._channels.get(broker)
        if channel is not None and channel.open_at_client:
            return channel
        server = self._brokers[broker]
        if not server.up or self._world.network.is_cut(self._client.name, broker):
            return None
        if broker in self._torn:
            self._torn.discard(broker)
            ghost = self._world.network.connect(self._client, server)
            self._world.network.up(ghost, partial(self._client.announce, server, ghost))
        self._channels[broker] = channel = self._world.network.connect(self._client, server)
        self._client.connected(broker)
        return channel

    def _fail_to_connect(self, broker: str, promise: Promise[T]) -> None:
        """Reject a request at once if the connection is refused, or after the timeout if the network is cut."""
        cut = self._world.network.is_cut(self._client.name, broker)
        error = BrokerError(f"connect to {broker} failed")
        self._client.process.after(CONNECT_TIMEOUT if cut else LATENCY_MAX, partial(promise.reject, error))

    def _answer(self, channel: SimulatedChannel, request: Callable[[], T], promise: Promise[T], deadline: int) -> None:
        """Compute the answer at the broker, and send it."""
        try:
            outcome: Call = partial(promise.resolve, request())
        except BrokerError as error:
            outcome = partial(promise.reject, error)
        if not self._world.network.down(channel, partial(_settle, channel, promise, outcome)):
            self._give_up_at(deadline, channel, promise)

    def _reply(self, channel: SimulatedChannel, promise: Promise[T], answer: T | BrokerError) -> None:
        """Send a later answer from the broker."""
        outcome: Call = (
            partial(promise.reject, answer) if isinstance(answer, BrokerError) else partial(promise.resolve, answer)
        )
        self._world.network.down(channel, partial(_settle, channel, promise, outcome))

    def _give_up_at(self, deadline: int, channel: SimulatedChannel, promise: Promise[T]) -> None:
        self._world.scheduler.at(deadline, partial(self._client.process.run, partial(self._give_up, channel, promise)))

    def _give_up(self, channel: SimulatedChannel, promise: Promise[T]) -> None:
        if not promise.done:
            self._world.network.close_at_client(channel)


Outcome = Callable[[T | BrokerError], None]


def _settle(channel: SimulatedChannel, promise: Promise[T], outcome: Call) -> None:
    channel.unanswered.pop(promise, None)
    outcome()
