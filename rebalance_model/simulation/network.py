"""Connections between clients and brokers, what they carry, and what cuts them.

A message on its way when a cut begins still arrives; what is sent during the cut waits in the sender's kernel until
it heals, a goodbye included.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from rebalance_model.client.host import BrokerError
from rebalance_model.simulation.process import Life, Process
from rebalance_model.simulation.scheduler import MS, Call, Scheduler
from rebalance_model.simulation.splitmix import SplitMix64

if TYPE_CHECKING:
    from rebalance_model.simulation.broker import Broker
    from rebalance_model.simulation.client_answers import RunningInfo

LATENCY_MIN = 100
"""Microseconds, one way."""
LATENCY_MAX = 2 * MS
FIRST_PORT = 40_000


class ClientEnd(Protocol):
    """What a broker asks and tells a client."""

    name: str
    process: Process

    def notified(self) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED."""

    def wake(self) -> None:
        """Something happens that may matter to its queues at rest (`quiet_queue`)."""

    def running_info(self, tell: Callable[["RunningInfo"], None]) -> None:
        """GET_CONSUMER_RUNNING_INFO; the answer comes when it is known."""


class Channel:
    """One connection of a client to a broker. Either end may think it open when the other doesn't."""

    def __init__(self, name: str, client: ClientEnd, broker: "Broker", latency: int) -> None:
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
        """What the client waits for, and how to tell it that nothing will come."""
        self.stalled: list[Call] = []

    def lost(self) -> None:
        """The client sees that it is closed: nothing more comes, so what it waits for fails."""
        self.open_at_client = False
        unanswered, self.unanswered = self.unanswered, {}
        for reject in unanswered.values():
            reject(BrokerError("the connection was closed"))


class Network:
    """Carries calls between the ends of channels."""

    def __init__(self, scheduler: Scheduler, random: SplitMix64) -> None:
        self._scheduler = scheduler
        self._random = random
        self._ports = FIRST_PORT
        self._cuts: set[tuple[str, str]] = set()
        self._channels: dict[tuple[str, str], list[Channel]] = {}

    def connect(self, client: ClientEnd, broker: "Broker") -> Channel:
        """A new connection; that the broker takes it has been seen to."""
        self._ports += 1
        latency = self._random.between(LATENCY_MIN, LATENCY_MAX)
        channel = Channel(f"127.0.0.1:{self._ports}", client, broker, latency)
        known = self._channels.get((client.name, broker.name), [])
        alive = [one for one in known if one.open_at_broker or one.open_at_client]
        self._channels[client.name, broker.name] = [*alive, channel]
        self.up(channel, partial(broker.accept, channel))
        return channel

    def cut(self, client: str, broker: str) -> None:
        """Let nothing through between the two."""
        for channel in self._channels.get((client, broker), ()):
            channel.client.wake()
        self._cuts.add((client, broker))

    def heal(self, client: str, broker: str) -> None:
        """Let everything through again, what waited first."""
        self._cuts.discard((client, broker))
        for channel in self._channels.get((client, broker), ()):
            stalled, channel.stalled = channel.stalled, []
            for call in stalled:
                self._scheduler.after(channel.latency, call)

    def is_cut(self, client: str, broker: str) -> bool:
        """Whether nothing gets through between the two."""
        return (client, broker) in self._cuts

    def up(self, channel: Channel, call: Call) -> bool:
        """Run a call at the broker if the connection is still there when it arrives; False: a cut holds it up."""
        return self._send(channel, partial(self._at_broker, channel, call))

    def down(self, channel: Channel, call: Call) -> bool:
        """Run a call in the client's process, likewise."""
        if not channel.open_at_broker:
            return True
        channel.last_io = self._scheduler.now
        return self._send(channel, partial(self._at_client, channel, call))

    def close_at_client(self, channel: Channel) -> None:
        """The client, or the kernel of one that died, says goodbye."""
        if channel.open_at_client:
            channel.client.wake()
            channel.lost()
            self.up(channel, partial(channel.broker.channel_closed, channel))

    def close_at_broker(self, channel: Channel) -> None:
        """The broker closes a connection."""
        channel.client.wake()
        self.down(channel, channel.lost)
        channel.open_at_broker = False

    def _send(self, channel: Channel, call: Call) -> bool:
        if self._cuts and (channel.client.name, channel.broker.name) in self._cuts:
            channel.stalled.append(call)
            return False
        self._scheduler.after(channel.latency, call)
        return True

    def _at_broker(self, channel: Channel, call: Call) -> None:
        if channel.open_at_broker:
            channel.last_io = self._scheduler.now
            call()

    def _at_client(self, channel: Channel, call: Call) -> None:
        process = channel.client.process
        if process.life is not Life.RUNNING:
            process.run(partial(self._at_client, channel, call))
        elif channel.open_at_client:
            call()
