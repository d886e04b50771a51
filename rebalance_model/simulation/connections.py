"""A client's connections to its brokers, and its questions over them (NettyRemotingClient).

A question that is not answered in time closes its connection (closeSocketIfTimeout), and every new connection tells
the broker of the client at once (MQClientInstance's ChannelEventListener).
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from rebalance_model.client.host import BrokerError
from rebalance_model.simulation.broker import Broker
from rebalance_model.simulation.network import LATENCY_MAX, Channel, ClientEnd
from rebalance_model.simulation.process import Promise
from rebalance_model.simulation.scheduler import MS, Call
from rebalance_model.simulation.world import World

T = TypeVar("T")
Question = Callable[[Broker, Channel], T]

CONNECT_TIMEOUT = 3_000 * MS


class ConnectingClient(ClientEnd, Protocol):
    """Whose connections they are."""

    def connected(self, broker: str) -> None:
        """There is a new connection to a broker."""

    def announce(self, broker: Broker, channel: Channel) -> None:
        """A heartbeat, at the broker."""


class Connections:
    """The channels of one client, made when they are needed."""

    def __init__(self, client: "ConnectingClient", brokers: dict[str, Broker], world: World) -> None:
        self._client = client
        self._brokers = brokers
        self._world = world
        self._channels: dict[str, Channel] = {}
        self._torn: set[str] = set()

    def ask(self, broker: str, question: Question[T], timeout: int) -> Promise[T]:
        """Ask a broker; BrokerError after the timeout (milliseconds), or as soon as there can be no answer."""
        promise: Promise[T] = Promise()
        channel = self._channel_for(broker, promise)
        if channel is not None:
            deadline = self._world.scheduler.now + timeout * MS
            if not self._world.network.up(channel, partial(self._answer, channel, question, promise, deadline)):
                self._give_up_at(deadline, channel, promise)
        return promise

    def send(self, broker: str, question: Question[None]) -> None:
        """Tell a broker something, one-way."""
        channel = self._channel(broker)
        if channel is not None:
            self._world.network.up(channel, partial(question, channel.broker, channel))

    def pull(self, broker: str, begin: Callable[[Broker, Channel, "Outcome[T]"], None]) -> Promise[T]:
        """Ask a broker that answers when it likes, by calling what it is given."""
        promise: Promise[T] = Promise()
        channel = self._channel_for(broker, promise)
        if channel is not None:
            outcome = partial(self._reply, channel, promise)
            self._world.network.up(channel, partial(begin, channel.broker, channel, outcome))
        return promise

    def torn(self) -> None:
        """The process was frozen: what its broker has closed meanwhile is connected anew by many threads at once.

        One of them wins; the channel of another one is left over, registered by its own first heartbeat and never used
        again. So the client stands twice on that broker until the scan removes it (seen on a real 5.4.0, each time).
        """
        self._torn = {name for name, channel in self._channels.items() if not channel.open_at_broker}

    def close(self) -> None:
        """Close all, as a clean end or the kernel of a killed process does."""
        for channel in self._channels.values():
            self._world.network.close_at_client(channel)
        self._channels.clear()

    def _channel_for(self, broker: str, promise: Promise[T]) -> Channel | None:
        """The connection over which an answer is waited for; None where none can be made, so none will come."""
        channel = self._channel(broker)
        if channel is None:
            self._fail_to_connect(broker, promise)
        else:
            channel.unanswered[promise] = promise.reject
        return channel

    def _channel(self, broker: str) -> Channel | None:
        """An open connection; None where none can be made."""
        channel = self._channels.get(broker)
        if channel is not None and channel.open_at_client:
            return channel
        known = self._brokers[broker]
        if not known.up or self._world.network.is_cut(self._client.name, broker):
            return None
        if broker in self._torn:
            self._torn.discard(broker)
            ghost = self._world.network.connect(self._client, known)
            self._world.network.up(ghost, partial(self._client.announce, known, ghost))
        self._channels[broker] = channel = self._world.network.connect(self._client, known)
        self._client.connected(broker)
        return channel

    def _fail_to_connect(self, broker: str, promise: Promise[T]) -> None:
        """Refused at once, or no answer to the SYN."""
        cut = self._world.network.is_cut(self._client.name, broker)
        error = BrokerError(f"connect to {broker} failed")
        self._client.process.after(CONNECT_TIMEOUT if cut else LATENCY_MAX, partial(promise.reject, error))

    def _answer(self, channel: Channel, question: Question[T], promise: Promise[T], deadline: int) -> None:
        """At the broker."""
        try:
            outcome: Call = partial(promise.resolve, question(channel.broker, channel))
        except BrokerError as error:
            outcome = partial(promise.reject, error)
        if not self._world.network.down(channel, partial(_settle, channel, promise, outcome)):
            self._give_up_at(deadline, channel, promise)

    def _reply(self, channel: Channel, promise: Promise[T], answer: T | BrokerError) -> None:
        """At the broker."""
        outcome: Call = (
            partial(promise.reject, answer) if isinstance(answer, BrokerError) else partial(promise.resolve, answer)
        )
        self._world.network.down(channel, partial(_settle, channel, promise, outcome))

    def _give_up_at(self, deadline: int, channel: Channel, promise: Promise[T]) -> None:
        self._world.scheduler.at(deadline, partial(self._client.process.run, partial(self._give_up, channel, promise)))

    def _give_up(self, channel: Channel, promise: Promise[T]) -> None:
        if not promise.done:
            self._world.network.close_at_client(channel)


Outcome = Callable[[T | BrokerError], None]


def _settle(channel: Channel, promise: Promise[T], outcome: Call) -> None:
    channel.unanswered.pop(promise, None)
    outcome()
