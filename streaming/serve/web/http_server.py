"""The server of every port of the program: uvicorn's, with limits on what it accepts.

It accepts connections itself, one at a time, so that each is counted from its first moment, before TLS and before any
byte (`OpenConnections`). They are read by h11, of uvicorn's two ways the one that limits the bytes of a header.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Collection
from ipaddress import IPv4Network, IPv6Network
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from streaming.base.addresses import is_among, sender_of
from streaming.base.limits import CONNECTIONS, HEADER_BYTES, HEADER_SECONDS, REQUEST_BYTES, SENDER_CONNECTIONS
from streaming.base.lines import Seldom
from streaming.base.process import files_for_connections
from streaming.serve.web.connections import AcceptedConnection, OpenConnections

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
            self._connections.look()

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
