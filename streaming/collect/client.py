"""An asynchronous RocketMQ client: one connection per server, many concurrent requests, each with its own deadline."""

import asyncio
import contextlib
import itertools
from typing import Self

from rebalance_model.observe.events import DEADLINE, UNREACHABLE
from streaming.base.settings import Acl
from streaming.collect import remoting
from streaming.collect.acl import signed
from streaming.collect.remoting import Command, FrameError
from streaming.collect.requests import Request

CONNECT_SECONDS = 3.0
"""A server that takes longer to accept a connection is unreachable (ClientConfig.mqClientApiTimeout)."""
_SUCCESS = 0  # ResponseCode.SUCCESS


class RpcFailedError(Exception):
    """A request without an answer: ``code`` is RocketMQ's response code, `UNREACHABLE` or `DEADLINE`."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"{code}: {remark}")
        self.code = code
        self.remark = remark


class RemotingClient:
    """Connections to servers, opened on demand and reopened when they fail. Runs in one event loop."""

    def __init__(self, acl: Acl) -> None:
        self._acl = acl
        self._connections: dict[str, asyncio.Task[_Connection]] = {}

    async def ask(self, address: str, request: Request, *, seconds: float) -> Command:
        """Send a request and return the server's answer.

        Raises:
            RpcFailedError: no connection, no answer within ``seconds``, or an error response.
        """
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connection(address)
                answer = await connection.ask(request, self._acl)
        except TimeoutError:
            raise RpcFailedError(DEADLINE, f"no answer from {address} within {seconds:.1f} s") from None
        except OSError as error:
            raise RpcFailedError(UNREACHABLE, f"{address}: {error}") from None
        if answer.code != _SUCCESS:
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
            task = asyncio.create_task(_Connection.open(address))
            task.add_done_callback(_is_lost)  # retrieves its exception, even if no caller waits any more
            self._connections[address] = task
        return await asyncio.shield(task)


class _Connection:
    """One connection: numbers the requests, and passes each answer to its caller."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.failure: str | None = None
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._reading = asyncio.create_task(self._read(reader))

    @classmethod
    async def open(cls, address: str) -> Self:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            msg = f"{address!r} is not host:port"
            raise ConnectionError(msg)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return cls(*await asyncio.open_connection(host.strip("[]"), int(port)))
        except TimeoutError:
            msg = f"no connection within {CONNECT_SECONDS:.0f} s"
            raise ConnectionError(msg) from None  # unreachable, not late

    async def ask(self, request: Request, acl: Acl) -> Command:
        if self.failure is not None:
            raise ConnectionError(self.failure)
        number = next(self._numbers)
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        command = Command(
            code=request.code,
            opaque=number,
            language="PYTHON",
            version=remoting.VERSION,
            fields=signed(request.fields, acl),
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
        failure = "the connection was closed"
        try:
            while True:
                length = remoting.frame_length(await reader.readexactly(4))
                answer = remoting.decode(await reader.readexactly(length))
                future = self._waiting.get(answer.opaque)
                # Nobody waits for a request of the server (it pushes 40 and others to its clients), or for an answer
                # that came too late.
                if answer.is_response and future is not None and not future.done():
                    future.set_result(answer)
        except asyncio.IncompleteReadError as error:
            failure = "the server closed the connection" + (" within a frame" if error.partial else "")
        except FrameError as error:
            failure = f"not RocketMQ's protocol: {error}"
        except OSError as error:
            failure = str(error)
        finally:
            self.failure = failure
            self._writer.close()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError(failure))


def _is_lost(task: asyncio.Task[_Connection]) -> bool:
    return task.cancelled() or task.exception() is not None or task.result().failure is not None
