"""An asynchronous RocketMQ client: a connection per server and one for its clients' answers, many concurrent requests.

A small answer is read before the next frame of the same server is received; large ones are received in a memory that
all servers share (`frames`), and read beside the next frames. So the memory that servers can fill is bounded, and no
answer waits for another one.
"""

import asyncio
import contextlib
import itertools
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

from rebalance_model.observe.events import DEADLINE, UNREACHABLE, UNREADABLE
from streaming.base.certificate import is_alert, refused_certificate, untrusted
from streaming.base.limits import (
    ANSWER_AT_ONCE_BYTES,
    FRAME_BYTES,
    FRAME_SECONDS,
    FRAME_STALLED_SECONDS,
    PROBE_SECONDS,
    REMARK_CHARACTERS,
    SERVER_READING_BYTES,
    SKIPPED_FRAME_BYTES,
)
from streaming.collect import frames, remoting
from streaming.collect.frames import DroppedFrameError, FrameMemory
from streaming.collect.reach import AllowedServers, NotReachedError
from streaming.collect.remoting import FrameError, RemotingCommand
from streaming.collect.requests import Request, refusal
from streaming.collect.security import Credentials, Security, signed

CONNECT_SECONDS = 3.0
"""A server that takes longer to accept a connection is unreachable (ClientConfig.mqClientApiTimeout)."""
_SUCCESS = 0  # ResponseCode.SUCCESS
_NO_CONNECTION = "no connection"
"""All that an event says of a failed connection: who registers an address would learn else what listens there."""

_Key: TypeAlias = tuple[str, bool]
"""A connection: the address of its server, and whether it is that for answers of the server's clients."""
T = TypeVar("T")
Read = Callable[[bytes], Awaitable[T]]


class RpcFailedError(Exception):
    """A request without an answer: ``code`` is RocketMQ's response code, `UNREACHABLE`, `DEADLINE` or `UNREADABLE`."""

    def __init__(self, code: int, remark: str, detail: str = "") -> None:
        self.code = code
        self.remark = remark[:REMARK_CHARACTERS]
        self.detail = detail[:REMARK_CHARACTERS]
        """Details for the collector's own log alone."""
        super().__init__(f"{code}: {self.remark}")


class UnreadableError(RpcFailedError):
    """An answer came, and can't be read."""

    def __init__(self, remark: str) -> None:
        super().__init__(UNREADABLE, remark)


class LargeAnswerError(RpcFailedError):
    """An answer came, and was dropped: it is too large, or there was no room for it."""


class StuckAnswerError(RpcFailedError):
    """The connection was lost while a frame arrived: this answer, or one that it came before, does not end."""


class RequestRefusedError(RpcFailedError):
    """Client and server do not accept each other, or not this request: ``remark`` says what to do."""


class RemotingClient:
    """Connections to servers, opened on demand and reopened when they fail. Runs in one event loop."""

    def __init__(self, security: Security, reach: AllowedServers | None = None) -> None:
        """Connect with these credentials, and to these servers; None: to any."""
        self._security = security
        self._reach = reach
        self._connections: dict[_Key, asyncio.Task[_Connection]] = {}
        self._memory = FrameMemory()

    async def ask(
        self, address: str, request: Request, read: Read[T], *, seconds: float, is_forwarded: bool = False
    ) -> T:
        """Send a request and return what is read of the server's answer.

        ``is_forwarded``: a client of the server answers, with frames of any size: they have a connection of their own,
        so that the server's own answers don't wait for them.

        Raises:
            RpcFailedError: no connection, no answer within ``seconds``, or an error response.
            RefusedError: for reasons of TLS or access control.
        """
        sent, key = asyncio.get_running_loop().time(), (address, is_forwarded)
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connection(key)
                answer, content = await connection.ask(request, self._security.credentials, read)
        except TimeoutError:
            is_strange = self._is_strange(key)
            await self._close_unheard(key, sent)
            if is_strange:
                raise RpcFailedError(UNREACHABLE, f"{address}: {_NO_CONNECTION}", "no answer") from None
            raise RpcFailedError(DEADLINE, f"no answer from {address} within {seconds:.1f} s") from None
        except NotReachedError as error:
            raise RpcFailedError(UNREACHABLE, str(error)) from None
        except DroppedFrameError as error:
            raise LargeAnswerError(UNREADABLE, f"{address}: {error}") from None
        except _StuckError as error:
            raise StuckAnswerError(UNREACHABLE, f"{address}: {error}") from None
        except OSError as error:
            detail = error.detail if isinstance(error, _HiddenError) else ""
            raise RpcFailedError(UNREACHABLE, f"{address}: {error}", detail) from None
        if answer.code != _SUCCESS:
            if sentence := refusal(address, request, answer, self._security.credentials):
                raise RequestRefusedError(answer.code, sentence)
            raise RpcFailedError(answer.code, answer.remark or "")
        value: T = content
        return value

    def _is_strange(self, key: _Key) -> bool:
        """Return whether a server that is not configured has never said anything: it may be none of RocketMQ."""
        connection = self._open(key)
        is_heard = connection is not None and connection.heard_at is not None
        return self._reach is not None and not self._reach.is_configured(key[0]) and not is_heard

    async def _close_unheard(self, key: _Key, since: float) -> None:
        """Close a connection on which nothing came while a request waited: the other end may be gone, and not know."""
        if (connection := self._open(key)) is None:
            return
        heard = connection.heard_at
        if heard is None or (heard < since and asyncio.get_running_loop().time() - since >= 0.9 * PROBE_SECONDS):
            await _closed(self._connections.pop(key))

    async def forget(self, addresses: set[str]) -> None:
        """Close the connections to all servers but these, and the configured ones.

        One that has an answer to give is closed the next time: a broker's name may have another address by now.
        """
        reach = self._reach
        for key, task in list(self._connections.items()):
            is_kept = key[0] in addresses or (reach is not None and reach.is_configured(key[0]))
            connection = self._open(key)
            is_kept = is_kept or (connection is not None and connection.is_waited_for)
            if not is_kept and self._connections.pop(key, None) is not None:
                await _closed(task)

    async def close(self) -> None:
        """Close every connection."""
        tasks = list(self._connections.values())
        self._connections.clear()
        await asyncio.gather(*map(_closed, tasks))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _open(self, key: _Key) -> "_Connection | None":
        task = self._connections.get(key)
        return task.result() if task is not None and task.done() and not _is_lost(task) else None

    async def _connection(self, key: _Key) -> "_Connection":
        """Return the connection to a server; concurrent callers share one attempt."""
        task = self._connections.get(key)
        if task is None or (task.done() and _is_lost(task)):
            task = asyncio.create_task(_Connection.open(_Server(key[0], self._security, self._reach, self._memory)))
            task.add_done_callback(_is_lost)  # retrieves its exception, even if no caller waits any more
            self._connections[key] = task
        return await asyncio.shield(task)


class _Server(NamedTuple):
    """A server, and how to connect to it."""

    address: str
    security: Security
    reach: AllowedServers | None
    memory: FrameMemory


class _HiddenError(ConnectionError):
    """No connection to a server, or no answer; why is for the log alone."""

    def __init__(self, detail: str) -> None:
        super().__init__(_NO_CONNECTION)
        self.detail = detail


class _StuckError(ConnectionError):
    """A frame did not end."""


class _Connection:
    """One connection: numbers the requests, and passes each answer to its caller."""

    def __init__(self, server: _Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.failure: OSError | RequestRefusedError | None = None
        self.heard_at: float | None = None
        """When the server last said anything, by the loop's clock; None: never."""
        self._server = server
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Asked] = {}
        self._to_read: dict[asyncio.Task[None], int] = {}
        """Answers that are being read beside the next frames, each with its bytes."""
        self._late: set[int] = set()
        """The requests whose time was over before their answers came."""
        self._unasked = 0
        """Bytes in a row that answer nothing."""
        self._receiving = asyncio.create_task(self._receive_all(reader))

    @property
    def is_waited_for(self) -> bool:
        """Return whether a request waits for its answer."""
        return bool(self._waiting)

    @classmethod
    async def open(cls, server: _Server) -> Self:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                opened = await _opened(server)
        except TimeoutError:
            msg = f"no connection within {CONNECT_SECONDS:.0f} s"
            raise _public(server, ConnectionError(msg)) from None  # unreachable, not late
        except (ssl.SSLError, ConnectionResetError, ConnectionAbortedError) as error:
            if server.security.tls is None:
                raise _public(server, error) from None
            raise _refused(server, error, is_open=False) from None
        except OSError as error:
            raise _public(server, error) from None
        return cls(server, *opened)

    async def ask(
        self, request: Request, credentials: Credentials | None, read: Read[Any]
    ) -> tuple[RemotingCommand, Any]:
        if self.failure is not None:
            raise self.failure
        number = next(self._numbers)
        future: asyncio.Future[tuple[RemotingCommand, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = _Asked(future, read)
        command = RemotingCommand(
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
            del self._waiting[number]
            if future.cancelled():
                self._late.add(number)

    async def close(self) -> None:
        self._receiving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._receiving
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _receive_all(self, reader: asyncio.StreamReader) -> None:
        failure: OSError | RequestRefusedError = ConnectionError("the connection was closed")
        loop = asyncio.get_running_loop()
        try:
            while True:
                length = remoting.frame_length(await reader.readexactly(4))
                self.heard_at = loop.time()
                await self._receive(reader, length)
        except (asyncio.IncompleteReadError, OSError) as error:
            failure = _refused(self._server, error, is_open=True) if self.heard_at is None else _lost(error)
        except FrameError as error:
            failure = _public(self._server, ConnectionError(f"not RocketMQ's protocol: {error}"))
        finally:
            self.failure = failure
            self._writer.transport.abort()  # close() over TLS waits 30 s for an answer that RocketMQ does not send
            self._fail_all(failure)
            for task in self._to_read:
                task.cancel()

    async def _receive(self, reader: asyncio.StreamReader, length: int) -> None:
        """Receive the rest of a frame, and read it if a request waits for it.

        None waits for a request of the server (it pushes 40 and others to its clients), or for an answer that came too
        late.
        """
        seconds = FRAME_STALLED_SECONDS if length <= ANSWER_AT_ONCE_BYTES else FRAME_SECONDS
        try:
            async with asyncio.timeout(seconds):
                if length > frames.LARGE_BYTES:
                    await self._receive_large(reader, length)
                    return
                frame = await frames.received(reader, length)
        except TimeoutError:
            raise _StuckError("a frame did not end in time") from None
        answer = remoting.decode(frame)
        if asked := self._asked_by(answer, length):
            await self._read(asked, answer)

    async def _receive_large(self, reader: asyncio.StreamReader, length: int) -> None:
        """Receive a frame if a request waits for it and there is room for it, else drop its bytes as they come."""
        front, answer = await frames.front_of(reader, length)
        asked = self._asked_by(answer, length) if answer is not None else None
        if length > FRAME_BYTES:
            error = DroppedFrameError(f"a frame of {length} bytes, the limit is {FRAME_BYTES}")
            if asked is not None:
                _settle(asked.future, error)
            elif answer is None:
                self._fail_all(error)
        elif asked is not None or (answer is None and self._waiting):
            with self._server.memory.frame() as frame:
                try:
                    whole = remoting.decode(bytes(await frame.receive(reader, front, length)))
                except DroppedFrameError as error:
                    if asked is not None:
                        _settle(asked.future, error)
                    return
                if asked := self._asked_by(whole, length):
                    await self._read(asked, whole)
            return
        await frames.skip(reader, length - len(front))

    def _asked_by(self, answer: RemotingCommand, length: int) -> "_Asked | None":
        """Return the request that waits for an answer; raise `FrameError` if much came that none waits for."""
        asked = self._waiting.get(answer.opaque) if answer.is_response else None
        if asked is not None and not asked.future.done():
            self._unasked = 0
            return asked
        if answer.is_response and answer.opaque in self._late:
            self._late.discard(answer.opaque)
            return None
        self._unasked += length
        if self._unasked > SKIPPED_FRAME_BYTES:
            raise FrameError(f"{self._unasked} bytes that answer no request")
        return None

    async def _read(self, asked: "_Asked", answer: RemotingCommand) -> None:
        """Read an answer: a small one at once, a larger one beside the next frames."""
        size = len(answer.body)
        if answer.code != _SUCCESS or size <= ANSWER_AT_ONCE_BYTES:
            await _read(asked, answer)
        elif sum(self._to_read.values()) + size > SERVER_READING_BYTES:
            _settle(asked.future, DroppedFrameError(f"an answer of {size} bytes: too many others wait to be read"))
        else:
            task = asyncio.create_task(_read(asked, answer))
            self._to_read[task] = size
            task.add_done_callback(self._to_read.pop)
            asked.future.add_done_callback(lambda future: future.cancelled() and task.cancel())

    def _fail_all(self, error: Exception) -> None:
        for asked in self._waiting.values():
            _settle(asked.future, error)


async def _read(asked: "_Asked", answer: RemotingCommand) -> None:
    try:
        content = await asked.read(answer.body) if answer.code == _SUCCESS else None
    except Exception as error:  # noqa: BLE001  whatever it is, it ends this request alone
        # Java clients answer so in their first seconds: success without a body, and a remark that says why.
        is_explained = isinstance(error, UnreadableError) and not answer.body and answer.remark
        _settle(asked.future, UnreadableError(f"no body: {answer.remark}") if is_explained else _without_frames(error))
    else:
        if not asked.future.done():
            asked.future.set_result((answer, content))


class _Asked(NamedTuple):
    """A request that waits for its answer."""

    future: asyncio.Future[tuple[RemotingCommand, Any]]
    read: Read[Any]


def _without_frames(error: Exception) -> Exception:
    """Forget where an error was raised: its frames have the answer, and its future, which has the error.

    Until Python looks for such cycles, a server that answers what can't be read would cost 16 MB a request.
    """
    link: BaseException | None = error
    while link is not None:
        link.__traceback__, link = None, link.__cause__ or link.__context__
    return error


def _settle(future: asyncio.Future[tuple[RemotingCommand, Any]], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


async def _closed(task: asyncio.Task[_Connection]) -> None:
    task.cancel()
    [made] = await asyncio.gather(task, return_exceptions=True)
    if isinstance(made, _Connection):
        await made.close()


async def _opened(server: _Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection to the first of the server's addresses that takes one."""
    tls = server.security.tls
    host, places = await (server.reach or AllowedServers([server.address])).find(server.address)
    failure: OSError = ConnectionError(_NO_CONNECTION)
    for ip, port in places:
        try:
            return await asyncio.open_connection(ip, port, ssl=tls, server_hostname=host if tls else None)
        except OSError as error:
            failure = error
    raise failure


def _public(server: _Server, error: OSError) -> OSError:
    """Return the error as events may have it."""
    reach = server.reach
    is_public = isinstance(error, NotReachedError) or reach is None or reach.is_configured(server.address)
    return error if is_public else _HiddenError(str(error))


def _lost(error: asyncio.IncompleteReadError | OSError) -> OSError:
    if isinstance(error, OSError):
        return error
    if error.partial:
        return _StuckError("the server closed the connection within a frame")
    return ConnectionError("the server closed the connection")


def _refused(server: _Server, error: Exception, *, is_open: bool) -> RequestRefusedError:
    """Return why a server that listens ended a connection: in the handshake, or, if it is open, without an answer."""
    name, certificate, alert = f"RocketMQ at {server.address}", server.security.certificate_file, _alert(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        sentence = untrusted(name, "rocketmq", "collector.name_servers (a broker: in brokerIP1)", error)
    elif alert is not None:  # also later: by TLS 1.3 a client's certificate is checked after the handshake
        sentence = refused_certificate(name, "rocketmq", certificate, alert)
    elif not is_open:
        sentence = f"{name} ended the TLS handshake: it is being stopped, or speaks no TLS (set rocketmq.tls to false)."
    else:
        reason = "accepts only TLS (set rocketmq.tls to true)"
        if certificate:
            reason = f"does not accept the client certificate {certificate}"
        elif server.security.tls:
            reason = "asks for a client certificate (set rocketmq.certificate_file and rocketmq.key_file)"
        sentence = f"{name} closed the connection without an answer: it is being stopped, or {reason}."
    return RequestRefusedError(UNREACHABLE, sentence)


def _alert(error: Exception) -> str | None:
    reason = getattr(error, "reason", None)
    return reason if is_alert(reason) else None


def _is_lost(task: asyncio.Task[_Connection]) -> bool:
    return task.cancelled() or task.exception() is not None or task.result().failure is not None
