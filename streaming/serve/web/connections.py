"""The connections of a server: how many there are, in all and of each sender, and how long it waits for a client.

Each costs an open file, whatever it has sent. uvicorn's own `limit_concurrency` does not hold them back: it answers
503 to everybody while too many are open, and never closes those that send nothing or half a header.

So a connection beyond the limits is accepted, in the place of one that only waits: whoever sends a whole request at
once, as browsers, scrapers and probes do, is answered, however many half requests others hold open. What the server
waits for from a client has a time.
"""

import asyncio
import logging
import socket
import time
from collections import Counter
from collections.abc import Iterable
from enum import Enum

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from streaming.base.limits import BODY_SECONDS, HEADER_SECONDS, REFUSALS_SECONDS, UNREAD_SECONDS

_LOG = logging.getLogger(__name__)
_FOREVER = float("inf")


class Phase(Enum):
    """What a connection is doing."""

    HANDSHAKE = "did not end the handshake of TLS"
    IDLE = "sent nothing"
    HEADER = "did not send a whole header"
    BODY = "did not send a whole body"
    UNREAD = "did not read the answer"
    CLOSING = "did not take its end"
    WORKING = "waits for the answer"
    """It takes as long as the question needs."""
    WEBSOCKET = "is a page's"
    """The server asks now and then whether the page still is there."""


_SECONDS = {
    Phase.HANDSHAKE: HEADER_SECONDS,
    Phase.IDLE: HEADER_SECONDS,
    Phase.HEADER: HEADER_SECONDS,
    Phase.BODY: BODY_SECONDS,
    Phase.UNREAD: UNREAD_SECONDS,
    Phase.CLOSING: UNREAD_SECONDS,
}
"""How long the server waits for the client in each phase; in the others the client waits for the server."""
_UNHEARD = frozenset({Phase.HANDSHAKE, Phase.IDLE, Phase.HEADER, Phase.BODY})
_UNSAID = frozenset({Phase.IDLE, Phase.CLOSING})
"""Browsers open connections in advance, and are switched off: nothing to say of them."""


class AcceptedConnection:
    """A connection that was accepted."""

    def __init__(self, accepted: socket.socket, sender: str, protocol: H11Protocol, *, is_shared: bool = False) -> None:
        """Begin to count.

        Args:
            accepted: its socket.
            sender: where it comes from.
            protocol: speaks HTTP on it.
            is_shared: whether many people share the sender, as behind a proxy: only the limit of all holds for it.
        """
        self.sender = sender
        self.is_shared = is_shared
        self.opening: asyncio.Task[None] | None = None
        """The handshake of TLS, and what else precedes the first byte."""
        self._socket = accepted
        self._protocol = protocol
        self._step: tuple[Phase, object] = (Phase.HANDSHAKE, None)
        self._since = time.monotonic()

    @property
    def is_open(self) -> bool:
        """Whether it still takes a file."""
        return self._socket.fileno() >= 0

    @property
    def phase(self) -> Phase:
        """What it is doing now."""
        protocol, transport = self._protocol, self._protocol.transport
        if transport is None:
            return Phase.HANDSHAKE
        if transport.is_closing():
            return Phase.CLOSING
        if transport.get_protocol() is not protocol:
            return Phase.WEBSOCKET
        if protocol.flow.write_paused:
            return Phase.UNREAD
        if protocol.conn.their_state is h11.IDLE:
            return Phase.HEADER if protocol.conn.trailing_data[0] else Phase.IDLE
        return Phase.BODY if protocol.conn.their_state is h11.SEND_BODY else Phase.WORKING

    def overdue(self, now: float) -> Phase | None:
        """Return the phase that has taken too long, by the looks so far; None: none has."""
        step = (self.phase, self._protocol.cycle)  # each request has a cycle of its own
        if step != self._step:
            self._step, self._since = step, now
        return step[0] if now - self._since > _SECONDS.get(step[0], _FOREVER) else None

    def close(self) -> None:
        """Close it at once, without another word."""
        if self._protocol.transport is not None:
            self._protocol.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


class OpenConnections:
    """The open connections of a server, by sender, the oldest first."""

    def __init__(self, in_all: int, of_sender: int) -> None:
        self._in_all = in_all
        self._of_sender = of_sender
        self._open: dict[str, list[AcceptedConnection]] = {}
        self._closed: Counter[str] = Counter()
        self._said_at = -_FOREVER

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def add(self, connection: AcceptedConnection) -> bool:
        """Add a connection; return False if there is no room, so that it must be closed."""
        own = self._open.setdefault(connection.sender, [])
        is_admitted = True
        if not connection.is_shared and len(own) >= self._of_sender:
            is_admitted = self._make_room([own], f"more than {self._of_sender} of one address")
        elif len(self) >= self._in_all:
            heaviest_first = sorted(filter(None, self._open.values()), key=_weight, reverse=True)
            is_admitted = self._make_room(heaviest_first, f"more than {self._in_all} in all")
        if is_admitted:
            own.append(connection)
        return is_admitted

    def look(self) -> None:
        """Close what is overdue, and say what was closed; called every second."""
        now = time.monotonic()
        for sender, own in list(self._open.items()):
            _forget_closed(own)
            for connection in own:
                if (phase := connection.overdue(now)) is not None:
                    connection.close()
                    if phase not in _UNSAID:
                        self._closed[f"that {phase.value} within {_SECONDS[phase]:.0f} s"] += 1
            if not own:
                del self._open[sender]
        self._say(now)

    def close_unheard(self) -> None:
        """Close those from which no whole request has come, before the server ends."""
        for own in self._open.values():
            for connection in own:
                if connection.phase in _UNHEARD:
                    connection.close()

    def count(self, reason: str) -> None:
        """Count a connection that was not accepted."""
        self._closed[reason] += 1

    def _make_room(self, by_sender: Iterable[list[AcceptedConnection]], reason: str) -> bool:
        for own in by_sender:
            before = len(own)
            _forget_closed(own)
            if len(own) < before:
                return True
            if (given_up := _given_up(own)) is not None:
                own.remove(given_up)
                given_up.close()
                self._closed[reason] += 1
                return True
        self._closed[reason] += 1
        return False

    def _say(self, now: float) -> None:
        """Say in one line what was closed, now and then."""
        if not self._closed or now - self._said_at < REFUSALS_SECONDS:
            return
        said = "; ".join(f"{number:,} {reason}" for reason, number in self._closed.most_common())
        _LOG.warning("connections were closed (%s)", said)
        self._closed.clear()
        self._said_at = now


def _weight(connections: list[AcceptedConnection]) -> tuple[bool, int]:
    return not connections[0].is_shared, len(connections)


def _forget_closed(connections: list[AcceptedConnection]) -> None:
    connections[:] = [connection for connection in connections if connection.is_open]


def _given_up(connections: list[AcceptedConnection]) -> AcceptedConnection | None:
    """Return the connection that is closed for another one; None: all are requests at work."""
    waiting = next((one for one in connections if one.phase in _SECONDS), None)
    return waiting or next((one for one in reversed(connections) if one.phase is Phase.WEBSOCKET), None)
