"""Large frames: only as answers, one piece after the other; what does not fit fails its own request alone."""

import asyncio
import struct

import pytest

from rebalance_model.observe.events import UNREADABLE
from streaming.base.limits import FRAME_BYTES, SKIPPED_FRAME_BYTES
from streaming.collect.client import RpcFailedError
from streaming.collect.frames import DroppedFrameError, FrameMemory
from streaming.collect.remoting import RemotingCommand, encode
from streaming.collect.requests import ReadCode, Request
from tests.collect.test_client import _answer, _question, _run
from tests.support.bodies import body_of

LARGE = b"x" * 2_000_000


def test_an_oversized_answer_fails_its_request_and_keeps_the_connection():
    async def respond(question, writer):
        size = FRAME_BYTES + 1 if question.fields["consumerGroup"] == "odd" else 10
        writer.write(_answer(question, b"x" * size))

    async def talk(server, client):
        odd = asyncio.create_task(client.ask(server.address, _question("odd"), body_of, seconds=60))
        assert await client.ask(server.address, _question(), body_of, seconds=60) == b"x" * 10
        with pytest.raises(RpcFailedError, match="the limit is") as failed:
            await odd
        assert failed.value.code == UNREADABLE
        assert await client.ask(server.address, _question(), body_of, seconds=60) == b"x" * 10
        assert server.connections == 1

    _run(respond, talk)


def test_a_large_frame_that_answers_nothing_is_dropped():
    async def respond(question, writer):
        writer.write(encode(RemotingCommand(code=40, opaque=question.opaque, flag=2, body=LARGE)))
        writer.write(encode(RemotingCommand(code=0, opaque=7_777, flag=1, body=LARGE)))
        writer.write(_answer(question, LARGE))

    async def talk(server, client):
        for _ in range(2):
            assert await client.ask(server.address, _question(), body_of, seconds=60) == LARGE
        assert server.connections == 1

    _run(respond, talk)


def test_a_server_that_sends_much_that_answers_nothing_is_left():
    async def respond(question, writer):
        one = encode(RemotingCommand(code=40, opaque=1, flag=2, body=b"x" * 15_000_000))
        for _ in range(SKIPPED_FRAME_BYTES // len(one) + 1):
            writer.write(one)
            await writer.drain()

    async def talk(server, client):
        with pytest.raises(RpcFailedError, match="bytes that answer no request"):
            await client.ask(server.address, _question(), body_of, seconds=60)

    _run(respond, talk)


def test_a_large_answer_with_a_long_header_is_read():
    async def respond(question, writer):
        remark = "r" * 100_000
        writer.write(encode(RemotingCommand(code=0, opaque=question.opaque, flag=1, remark=remark, body=LARGE)))

    async def talk(server, client):
        assert await client.ask(server.address, _question(), body_of, seconds=60) == LARGE

    _run(respond, talk)


def test_an_oversized_answer_that_names_no_request_fails_all_of_its_server():
    async def respond(question, writer):
        if question.fields["consumerGroup"] == "odd":
            header = b"[" * 70_000
            writer.write(struct.pack(">II", FRAME_BYTES + 1, len(header)) + header)
            writer.write(b"x" * (FRAME_BYTES + 1 - 4 - len(header)))

    async def talk(server, client):
        asking = (client.ask(server.address, _question(name), body_of, seconds=60) for name in ("g", "odd"))
        failures = await asyncio.gather(*asking, return_exceptions=True)
        assert [failure.code for failure in failures] == [UNREADABLE] * 2
        assert server.connections == 1

    _run(respond, talk)


def test_answers_of_clients_have_a_connection_of_their_own():
    """A hundred of 10 MB would come before the broker's own answers."""

    async def respond(question, writer):
        writer.write(_answer(question, b"ok"))

    async def talk(server, client):
        request = Request(ReadCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "g", "clientId": "c"})
        for _ in range(2):
            await client.ask(server.address, _question(), body_of, seconds=60)
            await client.ask(server.address, request, body_of, seconds=60, is_forwarded=True)
        assert server.connections == 2
        await client.forget(set())
        await client.ask(server.address, _question(), body_of, seconds=60)
        assert server.connections == 3

    _run(respond, talk)


def test_an_answer_on_its_way_is_not_lost_with_its_connection():
    """A broker's name gets another address while its requests wait: two brokers share it."""
    asked, forgotten = asyncio.Event(), asyncio.Event()

    async def respond(question, writer):
        asked.set()
        await forgotten.wait()
        writer.write(_answer(question, b"ok"))

    async def talk(server, client):
        answer = asyncio.create_task(client.ask(server.address, _question(), body_of, seconds=60))
        await asked.wait()
        await client.forget(set())
        forgotten.set()
        await answer
        await client.forget(set())
        await client.ask(server.address, _question(), body_of, seconds=60)
        assert server.connections == 2

    _run(respond, talk)


def test_a_connection_on_which_nothing_ever_came_is_opened_again():
    async def respond(question, writer):
        if question.fields["consumerGroup"] != "silent":
            writer.write(_answer(question, b"ok"))

    async def talk(server, client):
        with pytest.raises(RpcFailedError):
            await client.ask(server.address, _question("silent"), body_of, seconds=0.1)
        assert await client.ask(server.address, _question(), body_of, seconds=60) == b"ok"
        assert server.connections == 2

    _run(respond, talk)


def test_when_the_memory_is_full_the_slowest_frame_gives_way():
    async def run():
        memory, outcome = FrameMemory(3_000_000), []
        slow, quick = asyncio.StreamReader(), asyncio.StreamReader()

        async def receive(reader):
            with memory.frame() as frame:
                try:
                    outcome.append(len(await frame.receive(reader, b"", 2_000_000)))
                except DroppedFrameError as error:
                    outcome.append(str(error))

        receiving = [asyncio.create_task(receive(reader)) for reader in (slow, quick)]
        slow.feed_data(b"x" * 1_500_000)
        await asyncio.sleep(0.3)
        quick.feed_data(b"x" * 2_000_000)
        await receiving[1]
        slow.feed_data(b"x" * 500_000)
        await receiving[0]
        return outcome

    quick, slow = asyncio.run(run())
    assert quick == 2_000_000
    assert "came too slowly" in slow
