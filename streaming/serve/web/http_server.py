"""The server of every port of the program: uvicorn's, with limits on what it accepts, and TLS.

It accepts connections itself, one at a time, so that each is counted from its first moment, before TLS and before any
byte (`OpenConnections`). They are read by h11, of uvicorn's two ways the one that limits the bytes of a header.

Each connection costs an open file, whatever it has sent. uvicorn's own `limit_concurrency` does not hold them back: it
answers 503 to everybody while too many are open, and never closes those that send nothing or half a header.

So a connection beyond the limits is accepted, in the place of one that only waits: a client that sends a whole request
at once, as browsers, scrapers and probes do, is answered, however many half requests others hold open. What the server
waits for from a client has a time.
"""

import asyncio
import errno
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from threading import Event, Thread
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from streaming.base.addresses import is_among, sender_of
from streaming.base.certificate import load_certificate
from streaming.base.errors import SettingsError, first_line
from streaming.base.limits import (
    BODY_SECONDS,
    CONNECTIONS,
    HEADER_BYTES,
    HEADER_SECONDS,
    REFUSALS_SECONDS,
    REQUEST_BYTES,
    SENDER_CONNECTIONS,
    UNREAD_SECONDS,
)
from streaming.base.lines import Seldom
from streaming.base.process import files_for_connections
from streaming.base.sections.web import Web

_LOG = logging.getLogger(__name__)
_FOREVER = float("inf")


class Phase(Enum):
    """The phase of a connection."""

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
"""The time for which the server waits for the client in each phase; in the others the client waits for the server."""
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
        """Return whether it still takes a file."""
        return self._socket.fileno() >= 0

    @property
    def phase(self) -> Phase:
        """Return the phase of the connection."""
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

    def close_overdue(self) -> None:
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


_BACKLOG = 2_048
_SHUTDOWN_SECONDS = 3
"""The maximum delay of the shutdown by open connections."""
_LOOK_SECONDS = 1.0
_PAUSE_SECONDS = 0.1
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class HttpServer(uvicorn.Server):
    """Serves an application on sockets that listen already."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        connections: int = CONNECTIONS,
        proxies: Collection[IPv4Network | IPv6Network] = (),
        tls: ssl.SSLContext | None = None,
        **config: Any,
    ) -> None:
        """Configure the server; `run` serves.

        Args:
            app: the application.
            connections: how many there may be; fewer where this process may have fewer files open.
            proxies: whose connections are of many senders.
            tls: the certificate that is shown; None: no TLS.
            config: further arguments of `uvicorn.Config`.
        """
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",  # of which the limit is
                h11_max_incomplete_event_size=HEADER_BYTES,
                ws_max_size=REQUEST_BYTES,
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,  # which would trust whoever connects from this machine; see web.trusted_proxies
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
                **config,
            )
        )
        self._tls = tls
        self._proxies = proxies
        in_all = min(connections, files_for_connections())
        self._connections = OpenConnections(in_all, min(SENDER_CONNECTIONS, in_all // 2))
        self._accepting: list[asyncio.Task[None]] = []
        Seldom.install("uvicorn.error")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets=[])
        for listening in sockets or []:
            listening.setblocking(False)  # noqa: FBT003  as it is declared
            listening.listen(_BACKLOG)
            self._accepting.append(asyncio.create_task(self._accept(listening)))
        self._accepting.append(asyncio.create_task(self._look()))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and end what is open."""
        for task in self._accepting:
            task.cancel()
        self._connections.close_unheard()
        await super().shutdown(sockets)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                self._accepted(*await loop.sock_accept(listening))
            except OSError as error:
                self._connections.count(f"not accepted: {error.strerror}")
                if error.errno in _OUT_OF_RESOURCES:
                    await asyncio.sleep(_PAUSE_SECONDS)
            await asyncio.sleep(0)  # the others' turn, however many wait to be accepted

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._connections.close_overdue()

    def _accepted(self, accepted: socket.socket, peer: Any) -> None:
        """Take a connection, unless there is no room for it."""
        address = peer[0] if isinstance(peer, tuple) else ""  # a Unix socket has none
        protocol = H11Protocol(self.config, self.server_state, self.lifespan.state)
        is_proxy = is_among(address, self._proxies)
        connection = AcceptedConnection(
            accepted, address if is_proxy else sender_of(address), protocol, is_shared=is_proxy
        )
        if self._connections.add(connection):
            connection.opening = asyncio.create_task(self._open(accepted, protocol))
        else:
            accepted.close()

    async def _open(self, accepted: socket.socket, protocol: H11Protocol) -> None:
        times: dict[str, Any] = {"ssl_handshake_timeout": HEADER_SECONDS, "ssl_shutdown_timeout": HEADER_SECONDS}
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=self._tls, **(times if self._tls is not None else {})
            )
        except OSError:  # a handshake that failed, or took too long
            accepted.close()


_RENEWED_WITHIN_SECONDS = 60.0


class ServerTls:
    """The certificate that the port shows.

    A renewed one is shown to new connections without a restart. While its files can't be used, as between the writing
    of the one and of the other, the former one stays.
    """

    def __init__(self, web: Web, warn: Callable[[str], None]) -> None:
        """Read the files.

        Args:
            web: the section with the certificate.
            warn: is called with what is wrong with renewed files, once for each change.

        Raises:
            SettingsError: a file can't be read or used, or the certificate has expired.
        """
        self._web, self._warn = web, warn
        self._written = self._written_now()
        self.context = self._new_context()

    def renew(self) -> None:
        """Read the files again if they have changed."""
        if (written := self._written_now()) == self._written:
            return
        self._written = written
        try:
            self._new_context()  # what can't be used must not replace what can
            load_certificate(self.context, "web", self._web)
        except SettingsError as error:
            self._warn(f"The renewed certificate is not used: {error}")
        except Exception as error:  # noqa: BLE001  whatever it is, the port goes on with the former one
            self._warn(
                f"The renewed certificate is not used ({first_line(error) or type(error).__name__}): write "
                "web.certificate_file and web.key_file again, as PEM with a key of RSA, P-256 or P-384."
            )

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        load_certificate(context, "web", self._web)
        return context

    def _written_now(self) -> tuple[int | None, ...]:
        """Return when the files were written, in nanoseconds; None for one that is not there or can't be read."""
        return tuple(map(_written_at, (self._web.certificate_file, self._web.key_file)))


def _written_at(file: str) -> int | None:
    try:
        return Path(file).expanduser().stat().st_mtime_ns
    except OSError:
        return None


@contextmanager
def server_tls(web: Web, warn: Callable[[str], None]) -> Iterator[ServerTls | None]:
    """Yield the TLS of the port, which is renewed until the end of the block; None if the section has no certificate.

    Raises:
        SettingsError: as of `ServerTls`.
    """
    if not (web.certificate_file or web.key_file):
        yield None
        return
    tls, ended = ServerTls(web, warn), Event()

    def look() -> None:
        while not ended.wait(_RENEWED_WITHIN_SECONDS):
            tls.renew()

    looking = Thread(target=look, name="certificate", daemon=True)
    looking.start()
    try:
        yield tls
    finally:
        ended.set()
        looking.join()
