"""An asynchronous RocketMQ client: one connection per server, many concurrent requests, each with its own deadline."""

import asyncio
import contextlib
import itertools
import ssl
from typing import Self

from rebalance_model.observe.events import DEADLINE, UNREACHABLE
from streaming.base.limits import REMARK_CHARACTERS
from streaming.base.tls_faults import is_alert, refused_certificate, untrusted
from streaming.collect import remoting
from streaming.collect.acl import signed
from streaming.collect.refusals import refusal
from streaming.collect.remoting import Command, FrameError
from streaming.collect.requests import Request
from streaming.collect.security import Credentials, Security

CONNECT_SECONDS = 3.0
"""A server that takes longer to accept a connection is unreachable (ClientConfig.mqClientApiTimeout)."""
_SUCCESS = 0  # ResponseCode.SUCCESS


class RpcFailedError(Exception):
    """A request without an answer: ``code`` is RocketMQ's response code, `UNREACHABLE` or `DEADLINE`."""

    def __init__(self, code: int, remark: str) -> None:
        self.code = code
        self.remark = remark[:REMARK_CHARACTERS]
        super().__init__(f"{code}: {self.remark}")


class RefusedError(RpcFailedError):
    """Client and server do not accept each other, or not this request: ``remark`` says what to do."""


class RemotingClient:
    """Connections to servers, opened on demand and reopened when they fail. Runs in one event loop."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._connections: dict[str, asyncio.Task[_Connection]] = {}

    async def ask(self, address: str, request: Request, *, seconds: float) -> Command:
        """Send a request and return the server's answer.

        Raises:
            RpcFailedError: no connection, no answer within ``seconds``, or an error response.
            RefusedError: for reasons of TLS or access control.
        """
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connection(address)
                answer = await connection.ask(request, self._security.credentials)
        except TimeoutError:
            raise RpcFailedError(DEADLINE, f"no answer from {address} within {seconds:.1f} s") from None
        except OSError as error:
            raise RpcFailedError(UNREACHABLE, f"{address}: {error}") from None
        if answer.code != _SUCCESS:
            if sentence := refusal(address, request, answer, self._security.credentials):
                raise RefusedError(answer.code, sentence)
            raise RpcFailedError(answer.code, answer.remark or "")
        return answer

    async def close(self) -> None:
        """Close every connection."""
        tasks = list(self._connections.values())
        self._connections.clear()
        for task in tasks:
            task.cancel()
        for made in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(made, _Connection):
                await made.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _connection(self, address: str) -> "_Connection":
        """Return the connection to a server; concurrent callers share one attempt."""
        task = self._connections.get(address)
        if task is None or (task.done() and _is_lost(task)):
            task = asyncio.create_task(_Connection.open(address, self._security))
            task.add_done_callback(_is_lost)  # retrieves its exception, even if no caller waits any more
            self._connections[address] = task
        return await asyncio.shield(task)


class _Connection:
    """One connection: numbers the requests, and passes each answer to its caller."""

    def __init__(
        self, address: str, security: Security, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.failure: OSError | RefusedError | None = None
        self._address = address
        self._security = security
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._reading = asyncio.create_task(self._read(reader))

    @classmethod
    async def open(cls, address: str, security: Security) -> Self:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            msg = f"{address!r} is not host:port"
            raise ConnectionError(msg)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                opened = await asyncio.open_connection(host.strip("[]"), int(port), ssl=security.tls)
        except TimeoutError:
            msg = f"no connection within {CONNECT_SECONDS:.0f} s"
            raise ConnectionError(msg) from None  # unreachable, not late
        except (ssl.SSLError, ConnectionResetError, ConnectionAbortedError) as error:
            if security.tls is None:
                raise
            raise _not_connected(address, security, error) from None
        return cls(address, security, *opened)

    async def ask(self, request: Request, credentials: Credentials | None) -> Command:
        if self.failure is not None:
            raise self.failure
        number = next(self._numbers)
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        command = Command(
            code=request.code,
            opaque=number,
            language="PYTHON",
            version=remoting.VERSION,
            fields=signed(request.fields, credentials),
        )
        try:
            self._writer.write(remoting.encode(command))
            return await future
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        failure: OSError | RefusedError = ConnectionError("the connection was closed")
        is_heard = False
        try:
            while True:
                length = remoting.frame_length(await reader.readexactly(4))
                is_heard = True
                answer = remoting.decode(await reader.readexactly(length))
                future = self._waiting.get(answer.opaque)
                # Nobody waits for a request of the server (it pushes 40 and others to its clients), or for an answer
                # that came too late.
                if answer.is_response and future is not None and not future.done():
                    future.set_result(answer)
        except (asyncio.IncompleteReadError, OSError) as error:
            failure = _lost(error) if is_heard else _not_answered(self._address, self._security, error)
        except FrameError as error:
            failure = ConnectionError(f"not RocketMQ's protocol: {error}")
        finally:
            self.failure = failure
            self._writer.transport.abort()  # close() over TLS waits 30 s for an answer that RocketMQ does not send
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(failure)


def _lost(error: asyncio.IncompleteReadError | OSError) -> OSError:
    if isinstance(error, OSError):
        return error
    return ConnectionError("the server closed the connection" + (" within a frame" if error.partial else ""))


def _not_connected(address: str, security: Security, error: OSError) -> RefusedError:
    """Return why a server that listens ended the connection before it could be used."""
    server = f"RocketMQ at {address}"
    if isinstance(error, ssl.SSLCertVerificationError):
        where = "collector.name_servers (a broker: in brokerIP1)"
        return RefusedError(UNREACHABLE, untrusted(server, "rocketmq", where, error))
    if alert := _alert(error):
        return RefusedError(UNREACHABLE, refused_certificate(server, "rocketmq", security.certificate_file, alert))
    return RefusedError(
        UNREACHABLE,
        f"{server} ended the TLS handshake: it is being stopped, or speaks no TLS (set rocketmq.tls to false).",
    )


def _not_answered(address: str, security: Security, error: asyncio.IncompleteReadError | OSError) -> RefusedError:
    """Return why a server closed a connection before its first answer."""
    server = f"RocketMQ at {address}"
    if alert := _alert(error):  # by TLS 1.3 a client's certificate is checked after the handshake
        return RefusedError(UNREACHABLE, refused_certificate(server, "rocketmq", security.certificate_file, alert))
    if security.certificate_file:
        reason = f"does not accept the client certificate {security.certificate_file}"
    elif security.tls:
        reason = "asks for a client certificate (set rocketmq.certificate_file and rocketmq.key_file)"
    else:
        reason = "accepts only TLS (set rocketmq.tls to true)"
    return RefusedError(
        UNREACHABLE, f"{server} closed the connection without an answer: it is being stopped, or {reason}."
    )


def _alert(error: Exception) -> str | None:
    reason = getattr(error, "reason", None)
    return reason if is_alert(reason) else None


def _is_lost(task: asyncio.Task[_Connection]) -> bool:
    return task.cancelled() or task.exception() is not None or task.result().failure is not None
