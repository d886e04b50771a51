"""The network of one consumer: a SOCKS5 relay (RFC 1928) in its own process, which can be cut and healed.

A cut behaves as a network partition does for both ends: no connection is closed, nothing arrives, and new connections
hang. Delayed data passes in order when the cut is healed, as with TCP's retransmissions. The relay runs in the
consumer's process, so a kill, a freeze and a clean end have the same effect on its connections as without it.

    with Relay() as relay:
        consumer.setSocksProxyConfig(relay.socks_proxy_config)
        relay.cut()
        relay.heal()
"""

import asyncio
import contextlib
import ipaddress
import socket
from asyncio import AbstractEventLoop
from collections.abc import Callable
from threading import Thread
from types import TracebackType
from typing import Self

import msgspec

_LOOPBACK, _LOOPBACK_NET = "127.0.0.1", "127.0.0.0/8"
_CHUNK = 65_536
_ENDS_SECONDS = 1.0
"""The time that the ends of streams are held after the healing. TCP restarts slowly, one segment per round trip, with
the FIN last. If everything arrived in one instant, the broker would close the channel while it still processes the
data, and a heartbeat in the data would make the dead channel a member again."""

_VERSION, _NO_AUTHENTICATION, _NO_METHOD, _CONNECT, _IPV4, _DOMAIN = 5, 0, 0xFF, 1, 1, 3
_SUCCEEDED, _NOT_ALLOWED, _UNREACHABLE, _REFUSED, _NO_SUCH_COMMAND, _NO_SUCH_ADDRESS_TYPE = 0, 2, 4, 5, 7, 8


class _RefusalError(OSError):
    """The client requests something that the relay doesn't support; the only argument is the SOCKS reply code."""


class Relay:
    """Connects to servers on this machine only, and accepts connections from this machine only."""

    def __init__(self) -> None:
        self.connected: Callable[[str], object] = lambda _: None
        """Called with host:port of each server connected to, in the relay's thread: it must return at once."""
        self._listener = socket.create_server((_LOOPBACK, 0))
        self._listener.settimeout(0)
        self._passes = asyncio.Event()
        self._passes.set()
        self._ends_pass = 0.0
        self._loop: AbstractEventLoop = asyncio.new_event_loop()
        self._serving = self._loop.create_task(self._serve())
        self._thread = Thread(target=self._run, name="relay", daemon=True)

    def __enter__(self) -> Self:
        """Start the relay."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        self._loop.call_soon_threadsafe(self._serving.cancel)
        self._thread.join()

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self._listener.getsockname()[1])

    @property
    def socks_proxy_config(self) -> str:
        """The value of RocketMQ's ClientConfig.socksProxyConfig that sends every connection through this relay."""
        return msgspec.json.encode({_LOOPBACK_NET: {"addr": f"{_LOOPBACK}:{self.port}"}}).decode()

    @property
    def is_cut(self) -> bool:
        """Return whether the network is cut."""
        return not self._passes.is_set()

    def cut(self) -> None:
        """Cut the network: nothing passes in either direction after the return."""
        self._run_in_loop(self._passes.clear)

    def heal(self) -> None:
        """Heal the network: everything passes again, delayed data first; ends of streams follow a second later."""
        self._run_in_loop(self._pass)

    def _run_in_loop(self, change: Callable[[], None]) -> None:
        async def done() -> None:
            change()

        asyncio.run_coroutine_threadsafe(done(), self._loop).result()

    def _pass(self) -> None:
        self._ends_pass = self._loop.time() + _ENDS_SECONDS
        self._passes.set()

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._serving)
        self._loop.close()

    async def _serve(self) -> None:
        with self._listener:
            async with asyncio.TaskGroup() as connections:
                while True:
                    client, _ = await self._loop.sock_accept(self._listener)
                    connections.create_task(self._relay(client))

    async def _relay(self, client: socket.socket) -> None:
        """Relay one connection until it ends. An error on one side ends only the other side."""
        with client, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
            for end in (client, server):
                end.settimeout(0)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                await self._agree(client)
                await self._connect(client, server)
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pump(client, server))
                    both.create_task(self._pump(server, client))
            except* OSError:
                pass

    async def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        """Relay one direction until the end of the stream. Data read during a cut is held until the healing."""
        try:
            while data := await self._loop.sock_recv(source, _CHUNK):
                await self._passes.wait()
                await self._loop.sock_sendall(sink, data)
            await self._end()
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            await self._end()  # a reset does not get through either
            raise

    async def _end(self) -> None:
        await self._passes.wait()
        while (left := self._ends_pass - self._loop.time()) > 0:
            await asyncio.sleep(left)
            await self._passes.wait()

    async def _agree(self, client: socket.socket) -> None:
        version, count = await self._hear(client, 2)
        methods = await self._hear(client, count)
        agreed = version == _VERSION and _NO_AUTHENTICATION in methods
        await self._send(client, bytes([_VERSION, _NO_AUTHENTICATION if agreed else _NO_METHOD]))
        if not agreed:
            raise ConnectionAbortedError

    async def _connect(self, client: socket.socket, server: socket.socket) -> None:
        try:
            host, port = await self._requested_address(client)
            await self._loop.sock_connect(server, (host, port))
        except OSError as error:
            await self._send(client, _reply(_code(error)))
            raise
        await self._send(client, _reply(_SUCCEEDED))
        self.connected(f"{host}:{port}")

    async def _requested_address(self, client: socket.socket) -> tuple[str, int]:
        _, command, _, kind = await self._hear(client, 4)
        if kind == _IPV4:
            host = socket.inet_ntoa(await self._hear(client, 4))
        elif kind == _DOMAIN:
            [length] = await self._hear(client, 1)
            host = (await self._hear(client, length)).decode("ascii", "replace")
        else:
            raise _RefusalError(_NO_SUCH_ADDRESS_TYPE)
        port = int.from_bytes(await self._hear(client, 2))
        if command != _CONNECT:
            raise _RefusalError(_NO_SUCH_COMMAND)
        if not _is_here(host):
            raise _RefusalError(_NOT_ALLOWED)
        return host, port

    async def _hear(self, client: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = await self._loop.sock_recv(client, count - len(data))
            await self._passes.wait()
            if not more:
                raise ConnectionAbortedError
            data += more
        return data

    async def _send(self, client: socket.socket, data: bytes) -> None:
        await self._passes.wait()
        await self._loop.sock_sendall(client, data)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _code(error: OSError) -> int:
    if isinstance(error, _RefusalError):
        return int(error.args[0])
    return _REFUSED if isinstance(error, ConnectionRefusedError) else _UNREACHABLE


def _reply(code: int) -> bytes:
    """Return a SOCKS reply with an address that clients ignore: 0.0.0.0:0."""
    return bytes([_VERSION, code, 0, _IPV4, 0, 0, 0, 0, 0, 0])
