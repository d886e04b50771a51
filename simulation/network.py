"""Connections between clients and brokers: delay, cuts and closing.

A message in transit when a cut begins still arrives; a message sent during the cut, including a FIN, waits in the
sender's kernel until the cut is healed.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from simulation.client_responses import ClientAnswer
from simulation.process import Process, ProcessState
from simulation.rocketmq.client.host import BrokerError
from simulation.scheduler import MS, Call, Scheduler
from simulation.splitmix import SplitMix64

LATENCY_MIN = 100
"""Microseconds, one way."""
LATENCY_MAX = 2 * MS
FIRST_PORT = 40_000


class ClientEnd(Protocol):
    """The part of a client that brokers and the network call."""

    name: str
    process: Process

    def notified(self) -> None:
        """Handle NOTIFY_CONSUMER_IDS_CHANGED."""

    def wake(self) -> None:
        """Simulate the client's queues at rest from now on (`quiet_queue`)."""

    def running_info(self, reply: Callable[[ClientAnswer], None]) -> None:
        """Answer GET_CONSUMER_RUNNING_INFO through the callback, when the client runs."""


class BrokerEnd(Protocol):
    """The part of a broker that the network calls."""

    name: str

    def accept(self, channel: "SimulatedChannel") -> None:
        """Take a new connection, or close it."""

    def channel_closed(self, channel: "SimulatedChannel") -> None:
        """Forget a connection that has ended."""


class SimulatedChannel:
    """One connection of a client to a broker; the two ends may differ on whether it is open."""

    def __init__(self, name: str, client: ClientEnd, broker: BrokerEnd, latency: int) -> None:
        self.name = name
        """The client's address, as the broker sees it."""
        self.client = client
        self.broker = broker
        self.latency = latency
        self.open_at_client = True
        self.open_at_broker = True
        self.last_io = 0
        """When the broker last read from it or wrote to it."""
        self.unanswered: dict[object, Callable[[Exception], None]] = {}
        """The requests that wait for an answer, each with the function that makes it fail."""
        self.stalled: list[Call] = []

    def lost(self) -> None:
        """Close the client's end, and fail the requests that wait for an answer."""
        self.open_at_client = False
        unanswered, self.unanswered = self.unanswered, {}
        for reject in unanswered.values():
            reject(BrokerError("the connection was closed"))


class Network:
    """Delivers calls between the ends of channels."""

    def __init__(self, scheduler: Scheduler, random: SplitMix64) -> None:
        self._scheduler = scheduler
        self._random = random
        self._ports = FIRST_PORT
        self._cuts: set[tuple[str, str]] = set()
        self._channels: dict[tuple[str, str], list[SimulatedChannel]] = {}

    def connect(self, client: ClientEnd, broker: BrokerEnd) -> SimulatedChannel:
        """Open a connection; the caller has checked that the broker is up and not cut off."""
        self._ports += 1
        latency = self._random.between(LATENCY_MIN, LATENCY_MAX)
        channel = SimulatedChannel(f"127.0.0.1:{self._ports}", client, broker, latency)
        known = self._channels.get((client.name, broker.name), [])
        alive = [one for one in known if one.open_at_broker or one.open_at_client]
        self._channels[client.name, broker.name] = [*alive, channel]
        self.up(channel, partial(broker.accept, channel))
        return channel

    def cut(self, client: str, broker: str) -> None:
        """Let nothing pass between a client and a broker."""
        for channel in self._channels.get((client, broker), ()):
            channel.client.wake()
        self._cuts.add((client, broker))

    def heal(self, client: str, broker: str) -> None:
        """Let everything pass again, delayed messages first."""
        self._cuts.discard((client, broker))
        for channel in self._channels.get((client, broker), ()):
            stalled, channel.stalled = channel.stalled, []
            for call in stalled:
                self._scheduler.after(channel.latency, call)

    def is_cut(self, client: str, broker: str) -> bool:
        """Return whether nothing passes between a client and a broker."""
        return (client, broker) in self._cuts

    def up(self, channel: SimulatedChannel, call: Call) -> bool:
        """Run a call at the broker on arrival, if the connection is still open; return False if a cut delays it."""
        return self._send(channel, partial(self._at_broker, channel, call))

    def down(self, channel: SimulatedChannel, call: Call) -> bool:
        """Run a call in the client's process on arrival, likewise."""
        if not channel.open_at_broker:
            return True
        channel.last_io = self._scheduler.now
        return self._send(channel, partial(self._at_client, channel, call))

    def close_at_client(self, channel: SimulatedChannel) -> None:
        """Close a connection from the client's side, as the client or the kernel of a dead one does."""
        if channel.open_at_client:
            channel.client.wake()
            channel.lost()
            self.up(channel, partial(channel.broker.channel_closed, channel))

    def close_at_broker(self, channel: SimulatedChannel) -> None:
        """Close a connection from the broker's side."""
        channel.client.wake()
        self.down(channel, channel.lost)
        channel.open_at_broker = False

    def _send(self, channel: SimulatedChannel, call: Call) -> bool:
        if self._cuts and (channel.client.name, channel.broker.name) in self._cuts:
            channel.stalled.append(call)
            return False
        self._scheduler.after(channel.latency, call)
        return True

    def _at_broker(self, channel: SimulatedChannel, call: Call) -> None:
        if channel.open_at_broker:
            channel.last_io = self._scheduler.now
            call()

    def _at_client(self, channel: SimulatedChannel, call: Call) -> None:
        process = channel.client.process
        if process.state is not ProcessState.RUNNING:
            process.run(partial(self._at_client, channel, call))
        elif channel.open_at_client:
            call()
