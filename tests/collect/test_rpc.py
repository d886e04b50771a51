import asyncio
import time

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import DEADLINE, UNREACHABLE, UNREADABLE
from streaming.base.limits import ROUTE_QUEUES
from streaming.collect.client import RpcFailedError, UnreadableError
from streaming.collect.cluster_responses import ListedBroker
from streaming.collect.reading import Reading
from streaming.collect.requests import ReadCode
from streaming.collect.rpc import NAME_SERVER_SECONDS, Rpc

BROKER = ListedBroker("C", "broker-a", "broker:1")
ROUTE = b'{"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":1,"writeQueueNums":1}]}'


class _Client:
    """Returns a body or raises a failure, by address."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    async def ask(self, address, request, read, *, seconds, is_forwarded=False):
        self.asked.append((address, request, seconds))
        answer = self.answers[address.partition(":")[0]]
        if isinstance(answer, Exception):
            raise answer
        return await read(answer)


def _ask(client, question, name_servers=("first:1", "second:1")):
    rpc = Rpc(client, name_servers)
    return asyncio.run(question(rpc))


def test_a_group_that_is_not_online_has_no_connections():
    client = _Client(broker=RpcFailedError(206, "the consumer group not online"))
    assert _ask(client, lambda rpc: rpc.connection(BROKER, "g", 9)) == {"connections": []}


def test_a_topic_that_a_broker_does_not_have_has_no_queues():
    client = _Client(broker=RpcFailedError(17, "topic[%DLQ%g] not exist"))
    assert _ask(client, lambda rpc: rpc.topic_stats(BROKER, "%DLQ%g", 9)) == {"queues": []}
    [(address, request, _)] = client.asked
    assert (address, request.code, request.fields) == ("broker:1", ReadCode.GET_TOPIC_STATS_INFO, {"topic": "%DLQ%g"})


def test_the_backlog_of_the_revive_group_is_the_sum_of_its_queues():
    """Of the queue with the most records it is known when the last one that was checked had been stored."""

    def offsets(number, newest, commit):
        key = f'{{"brokerName":"b","queueId":{number},"topic":"rmq_sys_REVIVE_LOG_C"}}'
        stored = number + 9
        return f'{key}:{{"brokerOffset":{newest},"consumerOffset":{commit},"lastTimestamp":{stored},"pullOffset":1}}'

    body = '{"consumeTps":0.1,"offsetTable":{' + ",".join([offsets(0, 50, 52), offsets(1, 130, 7)]) + "}}"
    client = _Client(broker=body.encode())
    assert _ask(client, lambda rpc: rpc.revive_backlog(BROKER, 9)) == (
        123,
        10,
    )  # of the first one it is unknown, not -2
    [(_, request, _)] = client.asked
    assert (request.code, request.fields) == (208, {"consumerGroup": "CID_RMQ_SYS_REVIVE_GROUP"})
    without = _Client(broker=b'{"consumeTps":0.0,"offsetTable":{}}')
    assert _ask(without, lambda rpc: rpc.revive_backlog(BROKER, 9)) is None  # nobody pops there


def test_a_broker_that_is_unreachable_says_nothing_of_a_topic():
    client = _Client(broker=RpcFailedError(UNREACHABLE, "connection refused"))
    with pytest.raises(RpcFailedError) as failed:
        _ask(client, lambda rpc: rpc.topic_stats(BROKER, "%DLQ%g", 9))
    assert failed.value.code == UNREACHABLE


def test_any_other_error_of_the_broker_is_a_failure():
    client = _Client(broker=RpcFailedError(16, "no permission"))
    with pytest.raises(RpcFailedError) as failed:
        _ask(client, lambda rpc: rpc.connection(BROKER, "g", 9))
    assert failed.value.code == 16


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"[" * 900 + b"]" * 900,
    ],
)
def test_an_unreadable_answer_is_a_failure_with_the_requests_name(body):
    with pytest.raises(RpcFailedError) as failed:
        _ask(_Client(broker=body), lambda rpc: rpc.connection(BROKER, "g", 9))
    assert failed.value.code == UNREADABLE
    assert "GET_CONSUMER_CONNECTION_LIST" in failed.value.remark


@pytest.mark.parametrize("code", [UNREACHABLE, DEADLINE])
def test_an_unreachable_name_server_is_tried_last_from_then_on(code):
    client = _Client(first=RpcFailedError(code, "away"), second=ROUTE)

    async def twice(rpc):
        return [await rpc.route("T", 9), await rpc.route("T", 9)]

    assert _ask(client, twice) == [{"queues": [MessageQueue("T", "b", 0)]}] * 2
    assert [address for address, _, _ in client.asked] == ["first:1", "second:1", "second:1"]
    assert sum(seconds for _, _, seconds in client.asked[:2]) <= NAME_SERVER_SECONDS


def test_an_unknown_topic_is_requested_from_one_name_server_only():
    client = _Client(first=RpcFailedError(17, "no route"), second=ROUTE)
    with pytest.raises(RpcFailedError) as failed:
        _ask(client, lambda rpc: rpc.route("T", 9))
    assert failed.value.code == 17
    assert len(client.asked) == 1


def test_a_clients_state_is_requested_without_a_thread_dump():
    client = _Client(broker=b'{"properties":{},"mqTable":{}}')
    _ask(client, lambda rpc: rpc.running_info(BROKER, "g", "c", 12))
    ((address, request, seconds),) = client.asked
    assert (address, request.code, seconds) == ("broker:1", ReadCode.GET_CONSUMER_RUNNING_INFO, 12)
    assert request.fields == {"consumerGroup": "g", "clientId": "c", "jstackEnable": "false"}


@pytest.mark.parametrize(
    ("question", "body"),
    [
        (lambda rpc: rpc.broker_status(BROKER, "c", 9), b'{"table":{"bootTimestamp":Infinity}}'),
        (lambda rpc: rpc.groups(BROKER, 9), b'{"subscriptionGroupTable":null}'),
        (lambda rpc: rpc.consume_stats(BROKER, "g", 9), b'{"offsetTable":[]}'),
        (lambda rpc: rpc.running_info(BROKER, "g", "c", 9), b'{"properties":{},"mqTable":7}'),
        (lambda rpc: rpc.route("T", 9), b'{"queueDatas":[{"brokerName":"a","readQueueNums":4,"perm":6},{}]}'),
    ],
)
def test_an_answer_without_its_main_part_is_a_failure(question, body):
    with pytest.raises(RpcFailedError, match="can't be read") as failed:
        _ask(_Client(broker=body, first=body), question, name_servers=("first:1",))
    assert failed.value.code == UNREADABLE


def test_a_group_whose_answers_take_too_long_is_read_no_further(monkeypatch):
    """Any client of the group may answer what takes a second; the other groups go on."""
    monkeypatch.setattr("streaming.collect.reading.GROUP_READING_SHARE", -1.0)  # the least: one second

    def slow(body):
        end = time.thread_time() + 1.1
        while time.thread_time() < end:
            pass
        return len(body)

    async def talk():
        reading = Reading(10.0)
        assert await reading.read("b:1", "g", slow, b"x") == 1
        with pytest.raises(UnreadableError, match=r"takes more than 1\.0 s in this round"):
            await reading.read("b:1", "g", len, b"x")
        assert await reading.read("b:1", "h", len, b"x") == 1
        reading.begin_round()
        assert await reading.read("b:1", "g", len, b"x" * 70_000) == 70_000  # in a thread

    asyncio.run(talk())


def test_answers_take_the_time_of_their_own_subject_alone():
    """Else a registered broker's long lists would cost those of all others, and a client its group's member list."""
    subjects = []

    class Noted(Reading):
        async def read(self, server, subject, what, body):
            del server, what, body
            subjects.append(subject)
            return {}

    async def talk():
        rpc = Rpc(_Client(broker=b"", first=b""), ("first:1",), reading=Noted(10.0))
        await rpc.groups(BROKER, 9)
        await rpc.broker_status(BROKER, "poll-1@1", 9)
        await rpc.route("T", 9)
        await rpc.topic_stats(BROKER, "%DLQ%g", 9)
        await rpc.consume_stats(BROKER, "g", 9)
        await rpc.consume_time_span(BROKER, "g", "T", 9)
        await rpc.running_info(BROKER, "g", "c1", 9)

    asyncio.run(talk())
    lists = ["broker:1", "broker:1", "topic T", "topic %DLQ%g"]
    assert subjects == [*lists, "group g", "group g", "the clients of group g"]


def test_a_route_has_no_more_queues_than_the_limit():
    """One number of the answer would become that many objects: 2,000,000,000 were 5.85 GB."""

    def route(*counts):
        rows = ",".join(f'{{"brokerName":"b{n}","perm":6,"readQueueNums":{one}}}' for n, one in enumerate(counts))
        body = f'{{"queueDatas":[{rows}]}}'.encode()
        return _ask(_Client(first=body), lambda rpc: rpc.route("T", 9), name_servers=("first:1",))

    assert len(route(4_096, 4_096, -5)["queues"]) == 8_192
    for counts in ((2_000_000_000,), (ROUTE_QUEUES, 1), (10**30,)):
        with pytest.raises(RpcFailedError, match="the limit is 100,000"):
            route(*counts)
