"""The members by one broker: its hook's heartbeats, unregistrations and member lists, and its answers to polls.

A heartbeat adds a channel, an unregistration removes it. No event reports a closed channel, except that the next member
list lacks it. A channel without a heartbeat for 120 s is removed by the broker's next scan, which runs every 10 s
(ConsumerManager.scanNotActiveChannel). A restarted broker has an empty list; its clients are expected back with their
next heartbeat, sent every 30 s.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

CHANNEL_EXPIRED = 130_000
HEARD_FROM_ALL = 35_000


@dataclass
class Channel:
    """One connection of a client, and the time of its last heartbeat or first listing, milliseconds."""

    client: str
    beat: int


@dataclass
class Listing:
    """One broker's list of channels."""

    channels: dict[str, Channel] = field(default_factory=dict)
    expected_back: dict[str, int] = field(default_factory=dict)
    """The time until which a client of a restarted broker counts although the broker does not list it yet."""
    unregistered: dict[str, int] = field(default_factory=dict)

    def clients(self) -> set[str]:
        """Return the clients of the list."""
        return {channel.client for channel in self.channels.values()} | self.expected_back.keys()

    def beat(self, name: str, client: str, time: int) -> None:
        """Fold a heartbeat on a channel."""
        self.channels.pop(f"?{client}", None)
        self.channels[name] = Channel(client, time)
        self.expected_back.pop(client, None)
        self.unregistered.pop(client, None)

    def unregister(self, name: str, client: str, time: int) -> None:
        """Fold an unregistration on a channel."""
        self.channels.pop(name, None)
        self.channels.pop(f"?{client}", None)
        self.expected_back.pop(client, None)
        self.unregistered[client] = time

    def take_ids(self, ids: Iterable[str], asked: int, time: int) -> None:
        """Fold the broker's list of client ids, one per channel, which was valid at some time since ``asked``."""
        listed = Counter(ids)
        names: dict[str, list[str]] = {}
        for name, channel in sorted(self.channels.items(), key=lambda item: item[1].beat):
            names.setdefault(channel.client, []).append(name)
        for client, known in names.items():
            for name in known[: max(0, len(known) - listed[client])]:
                if self.channels[name].beat < asked:
                    del self.channels[name]
        for client in listed:
            if client not in names and self.unregistered.get(client, -1) < asked:
                self.channels[f"?{client}"] = Channel(client, time)

    def take_channels(self, connections: Iterable[dict[str, str]], asked: int, time: int) -> None:
        """Fold the broker's list of channels, from the answer to a poll."""
        listed = {part["channel"]: part["client_id"] for part in connections}
        for name, channel in list(self.channels.items()):
            if name not in listed and channel.beat < asked:
                del self.channels[name]
        for name, client in listed.items():
            if name not in self.channels and self.unregistered.get(client, -1) < asked:
                self.channels.pop(f"?{client}", None)
                self.channels[name] = Channel(client, time)

    def restart(self, time: int) -> None:
        """Fold a restart of the broker."""
        self.expected_back = dict.fromkeys(self.clients(), time + HEARD_FROM_ALL)
        self.channels, self.unregistered = {}, {}

    def next_due(self) -> int | None:
        """Return the next time at which a client expires without an event; None: never."""
        dues = [channel.beat + CHANNEL_EXPIRED + 1 for channel in self.channels.values()]
        return min([*dues, *self.expected_back.values()], default=None)

    def expire(self, now: int) -> None:
        """Remove the channels and clients that have expired."""
        self.channels = {n: c for n, c in self.channels.items() if c.beat + CHANNEL_EXPIRED + 1 > now}
        self.expected_back = {c: until for c, until in self.expected_back.items() if until > now}
