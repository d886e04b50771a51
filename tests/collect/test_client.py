"""The client against a small test server, only for faults that a real server can't be made to show."""

import asyncio
import contextlib
import gc
import socket
import struct
import weakref

import pytest

from rebalance_model.observe.events import DEADLINE, UNREACHABLE
from streaming.collect.client import RemotingClient, RpcFailedError, UnreadableError
from streaming.collect.remoting import RemotingCommand, decode, encode
from streaming.collect.requests import ReadCode, Request
from streaming.collect.security import Security
from tests.support.binary_frames import frame_in
from tests.support.bodies import body_of


def _question(name="g"):
    return Request(ReadCode.GET_CONSUME_STATS, {"consumerGroup": name})


def _answer(question, body=b"", **fields):
    return encode(RemotingCommand(code=0, opaque=question.opaque, flag=1, body=body, **fields))


class _Server:
    """Passes each request to ``respond(question, writer)``, or drops the connection if that raises."""

    def __init__(self, respond):
        self.respond = respond
        self.questions = []
        self.connections = 0
        self.serving = []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await self.server.wait_closed()
        await asyncio.gather(*self.serving)

    async def _serve(self, reader, writer):
        self.connections += 1
        self.serving.append(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                question = decode(await reader.readexactly(length))
                self.questions.append(question)
                await self.respond(question, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def _run(respond, talk):
    async def run():
        async with _Server(respond) as server, RemotingClient(Security()) as client:
            return await talk(server, client)

    return asyncio.run(run())


def _failure(respond, seconds=60.0):
    async def talk(server, client):
        with pytest.raises(RpcFailedError) as failed:
            await client.ask(server.address, _question(), body_of, seconds=seconds)
        return failed.value

    return _run(respond, talk)


def test_concurrent_requests_share_a_connection_and_get_their_answers():
    questions = []

    async def respond(question, writer):
        questions.append(question)
        if len(questions) == 20:
            for one in reversed(questions):
                writer.write(_answer(one, one.fields["consumerGroup"].encode()))

    async def talk(server, client):
        names = [f"g{number}" for number in range(20)]
        asking = (client.ask(server.address, _question(name), body_of, seconds=60) for name in names)
        assert [body.decode() for body in await asyncio.gather(*asking)] == names
        assert server.connections == 1

    _run(respond, talk)


def test_an_answer_is_decoded_by_its_own_serialization():
    async def respond(question, writer):
        writer.write(frame_in("ROCKETMQ", RemotingCommand(code=0, opaque=question.opaque, flag=1, body=b"b")))

    async def talk(server, client):
        assert await client.ask(server.address, _question(), body_of, seconds=60) == b"b"
        assert server.questions[0].version >= 401  # so that the name server answers in standard JSON

    _run(respond, talk)


@pytest.mark.parametrize(
    ("body", "remark", "expected"),
    [(b"", "/ by zero", "no body: / by zero"), (b"", None, "no JSON"), (b"x", "/ by zero", "no JSON")],
)
def test_an_answer_without_a_body_fails_with_its_remark(body, remark, expected):
    async def respond(question, writer):
        writer.write(_answer(question, body, remark=remark))

    async def read(body):
        raise UnreadableError("no JSON")

    async def talk(server, client):
        with pytest.raises(UnreadableError) as failed:
            await client.ask(server.address, _question(), read, seconds=60)
        assert failed.value.remark == expected

    _run(respond, talk)


@pytest.mark.parametrize("size", [10, 200_000])
def test_an_answer_that_cant_be_read_is_freed_at_once(size):
    class Parsed:
        """Content of an answer, as its reader has it."""

    parsed = []

    async def read(_body):
        part = Parsed()
        parsed.append(weakref.ref(part))
        try:
            int("no number")
        except ValueError as error:
            raise UnreadableError("no JSON") from error

    async def respond(question, writer):
        writer.write(_answer(question, b"x" * size))

    async def talk(server, client):
        with contextlib.suppress(UnreadableError):
            await client.ask(server.address, _question(), read, seconds=60.0)
        return [made() for made in parsed]

    gc.disable()
    try:
        assert _run(respond, talk) == [None]
    finally:
        gc.enable()


def test_a_pushed_request_is_no_answer():
    async def respond(question, writer):
        writer.write(encode(RemotingCommand(code=40, opaque=question.opaque, flag=2, body=b"push")))
        writer.write(_answer(question, b"answer"))

    async def talk(server, client):
        assert await client.ask(server.address, _question(), body_of, seconds=60) == b"answer"

    _run(respond, talk)


def test_an_error_keeps_rocketmqs_code_and_remark():
    async def respond(question, writer):
        writer.write(encode(RemotingCommand(code=17, opaque=question.opaque, flag=1, remark="no route")))

    failure = _failure(respond)
    assert (failure.code, failure.remark) == (17, "no route")


def test_each_request_has_its_deadline_and_late_answers_are_dropped():
    async def respond(question, writer):
        name = question.fields["consumerGroup"]
        if name == "slow":
            asyncio.get_running_loop().call_later(0.2, writer.write, _answer(question, b"slow"))
        else:
            writer.write(_answer(question, name.encode()))

    async def talk(server, client):
        slow = asyncio.create_task(client.ask(server.address, _question("slow"), body_of, seconds=0.1))
        assert await client.ask(server.address, _question("quick"), body_of, seconds=60) == b"quick"
        with pytest.raises(RpcFailedError) as failed:
            await slow
        assert failed.value.code == DEADLINE
        await asyncio.sleep(0.2)
        assert await client.ask(server.address, _question("after"), body_of, seconds=60) == b"after"
        assert server.connections == 1

    _run(respond, talk)


async def _torn(question, writer):
    writer.write(_answer(question, b"x" * 100)[:50])
    writer.close()


async def _closed(_question, writer):
    writer.close()


async def _garbage(_question, writer):
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def _unknown_type(_question, writer):
    writer.write(struct.pack(">II", 4, 7 << 24))


@pytest.mark.parametrize(
    ("respond", "why"),
    [
        (_torn, "within a frame"),
        (_closed, "closed the connection"),
        (_garbage, "not RocketMQ's protocol"),
        (_unknown_type, "unknown serialize type 7"),
    ],
)
def test_an_invalid_answer_fails_at_once_with_its_reason(respond, why):
    failure = _failure(respond)
    assert failure.code == UNREACHABLE
    assert why in failure.remark


def test_a_lost_connection_is_reopened():
    async def respond(question, writer):
        if question.fields["consumerGroup"] == "drop":
            writer.close()
        else:
            writer.write(_answer(question, b"ok"))

    async def talk(server, client):
        for _ in range(2):
            with pytest.raises(RpcFailedError):
                await client.ask(server.address, _question("drop"), body_of, seconds=60)
            assert await client.ask(server.address, _question(), body_of, seconds=60) == b"ok"
        assert server.connections == 3  # the reopened one is used until it is dropped

    _run(respond, talk)


def _ask_nowhere(address, seconds):
    async def ask():
        async with RemotingClient(Security()) as client:
            await client.ask(address, _question(), body_of, seconds=seconds)

    with pytest.raises(RpcFailedError) as failed:
        asyncio.run(ask())
    return failed.value


def test_a_refused_connection_is_unreachable():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and doesn't listen
        assert _ask_nowhere(f"127.0.0.1:{bound.getsockname()[1]}", 5).code == UNREACHABLE


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:port", ""])
def test_an_invalid_address_is_unreachable(address):
    failure = _ask_nowhere(address, 5)
    assert failure.code == UNREACHABLE
    assert "is not host:port" in failure.remark
