"""One client, or one registered address, answers oddly, over real TCP: it costs itself, never its neighbours."""

import asyncio
import json
import socket
import threading
import time
from collections import defaultdict

import msgspec
import pytest

from rebalance_model.observe.events import (
    UNREACHABLE,
    UNREADABLE,
    BrokerStatus,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    GroupEvent,
)
from streaming.base.settings import load_settings
from streaming.collect.collector import RoundSchedule, collect
from streaming.collect.reach import AllowedServers, NotReachedError
from streaming.collect.requests import ReadCode
from tests.support.counted_cluster import CountedCluster
from tests.support.odd_cluster import (
    CLIENT,
    CLUSTER,
    HEALTHY,
    NOW,
    ODD,
    TOPIC,
    OddCluster,
    answered,
    key,
    process_queue,
    running_info,
    table,
)

ROUNDS = 2
STAMPS = ("time", "seq", "source_id", "asked", "answered")


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Begin each round at once."""
    monkeypatch.setattr(RoundSchedule, "wait", lambda *_: 0.0)


def collected(cluster, rounds=ROUNDS, **changes):
    """Return the events of some rounds of the collector."""
    events = []
    with cluster:
        collector = {"name_servers": [cluster.address], "interval_ms": 10_000, "deadline_ms": 9_000} | changes
        settings = load_settings(collector=collector)
        asyncio.run(collect(settings, events.extend, rounds=rounds, report=lambda _: None))
    return events


def of_group(events, group):
    """Return the events of a group without what differs from run to run, in an order that does not."""
    mine = [event for event in events if isinstance(event, GroupEvent) and event.group == group]
    return sorted(msgspec.json.encode(msgspec.to_builtins(event) | dict.fromkeys(STAMPS)) for event in mine)


@pytest.fixture(scope="module")
def control():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RoundSchedule, "wait", lambda *_: 0.0)
        events = collected(OddCluster())
    assert len(of_group(events, HEALTHY)) >= 5 * ROUNDS
    return events


def of_client(body=b"", **more):
    """Answer the request for the odd client's state."""

    def odd(question):
        is_asked = question.code == ReadCode.GET_CONSUMER_RUNNING_INFO and question.fields["clientId"] == CLIENT
        return answered(question, body, **more) if is_asked else None

    return odd


def of_list(change):
    """Answer the request for the odd group's members with a changed list."""

    def odd(question):
        if question.code != ReadCode.GET_CONSUMER_CONNECTION_LIST or question.fields["consumerGroup"] != ODD:
            return None
        one = {"clientId": CLIENT, "clientAddr": "h:1", "language": "GO", "version": 317}
        content = {
            "connectionSet": [one, one | {"clientId": "java-client", "clientAddr": "h:2"}],
            "subscriptionTable": {TOPIC: {"topic": TOPIC, "subString": "*", "subVersion": NOW}},
        }
        change(content)
        return answered(question, json.dumps(content).encode())

    return odd


def first(**changes):
    """Return the odd client's state with a changed row for queue 0 beside an ordinary one for queue 1."""
    return running_info(table([(key(0), process_queue(**changes)), (key(1), process_queue())]))


ODD_ROWS = {
    "droped missing": first(droped=None),
    "dropped, as Go writes it": first(droped=None, dropped=False),
    "no consume stamp": first(lastConsumeTimestamp=None),
    "a count that is text": first(cachedMsgCount="a"),
    "-1 as an unsigned number": first(commitOffset="18446744073709551615"),
    "a number of 5,000 digits": first(commitOffset=77777).replace(b"77777", b"7" * 5_000),
    "a time beyond all": first(lastPullTimestamp=2**63),
    "infinity": first(lastLockTimestamp=77777).replace(b"77777", b"1e999"),
    "no numbers at all": running_info(table([(key(0), {}), (key(1), process_queue())])),
    "a row that is text": running_info(table([(key(0), "x"), (key(1), process_queue())])),
    "bytes that are not UTF-8": first(note="é").replace(rb"\u00e9", b"\xff\xfe"),
    "half a surrogate pair": first(note="é").replace(rb"\u00e9", rb"\ud800"),
    "properties with keys that are objects": first().replace(b'"properties": {', b'"properties":{{"a":1}:1,[1]:2,7:3,'),
    "trailing commas": first(note=1).replace(b'"note": 1', b'"note":1,'),
}
ODD_KEYS = {
    "a queue id that is a list": running_info(table([(key([]), process_queue()), (key(1), process_queue())])),
    "a queue id that is negative": running_info(table([(key(-1), process_queue()), (key(1), process_queue())])),
    "a topic that is a number": running_info(table([(key(0, 7), process_queue()), (key(1), process_queue())])),
    "a key that is no queue": running_info(table([('"x"', process_queue()), (key(1), process_queue())])),
    "an empty topic": running_info(table([(key(0, ""), process_queue()), (key(1), process_queue())])),
}
UNREADABLE_WHOLE = {
    "empty": b"",
    "no JSON": b"<html>",
    "a list": b"[]",
    "null": b"null",
    "cut": first()[:-40],
    "no table": running_info("null"),
    "a table that is text": running_info('"x"'),
    "nested deeply": b'{"mqTable":' + b"[" * 100_000,
    "many values": b'{"mqTable":{},"x":[' + b"1," * 1_100_000 + b"1]}",
    "blanks": b'{"mqTable":{"a' + b" " * 400_000,
}


@pytest.mark.parametrize("body", ODD_ROWS.values(), ids=ODD_ROWS)
def test_a_field_that_cant_be_read_costs_that_field(body, control):
    events = collected(OddCluster(of_client(body)))
    assert of_group(events, HEALTHY) == of_group(control, HEALTHY)
    for answer in answers_of(events, CLIENT):
        assert answer.error is None
        assert answer.queues[-1] == answers_of(control, CLIENT)[0].queues[-1]
        assert [str(queue.mq) for queue in answer.queues][-1] == f"{TOPIC}@broker-a:1"


@pytest.mark.parametrize("body", ODD_KEYS.values(), ids=ODD_KEYS)
def test_a_row_whose_queue_cant_be_told_makes_the_answer_incomplete(body, control):
    events = collected(OddCluster(of_client(body)))
    assert of_group(events, HEALTHY) == of_group(control, HEALTHY)
    for answer in answers_of(events, CLIENT):
        assert (answer.error, answer.incomplete) == (None, True)
        assert [str(queue.mq) for queue in answer.queues] == [f"{TOPIC}@broker-a:1"]
        assert "mqTable" in answer.unreadable[0]


@pytest.mark.parametrize("body", UNREADABLE_WHOLE.values(), ids=UNREADABLE_WHOLE)
def test_an_answer_that_cant_be_read_is_an_error_of_its_client_alone(body, control):
    events = collected(OddCluster(of_client(body)))
    assert of_group(events, HEALTHY) == of_group(control, HEALTHY)
    assert {answer.error.code for answer in answers_of(events, CLIENT)} == {UNREADABLE}
    assert answers_of(events, "java-client")[0].queues == answers_of(control, "java-client")[0].queues


def test_a_client_without_queues_has_none_in_the_form_of_the_cpp_client(control):
    events = collected(OddCluster(of_client(running_info("}"))))
    assert of_group(events, HEALTHY) == of_group(control, HEALTHY)
    assert [(answer.error, answer.queues) for answer in answers_of(events, CLIENT)] == [(None, ())] * ROUNDS


@pytest.mark.parametrize("code", [1, 3, 207, -7, 2**31 - 1])
def test_an_error_code_of_a_client_is_its_own(code, control):
    events = collected(OddCluster(of_client(code=code, remark="not supported")))
    assert of_group(events, HEALTHY) == of_group(control, HEALTHY)
    assert {answer.error.code for answer in answers_of(events, CLIENT)} == {code}


@pytest.mark.parametrize("remark", [rb"\ud800", b"\xff\xff\xff\xff\xff\xff", b'","a":'[:6]])
def test_a_header_that_a_broker_forwards_costs_its_answer_alone(remark, control):
    """Of a header that can't be read at all the broker's connection ends, and is opened again."""

    def odd(question):
        frame = of_client(code=1, remark="REMARK")(question)
        return frame and frame.replace(b"REMARK", remark)

    events = collected(OddCluster(odd))
    assert {answer.error.code for answer in answers_of(events, CLIENT)} <= {1, UNREACHABLE}
    if remark[:1] != b'"':
        assert of_group(events, HEALTHY) == of_group(control, HEALTHY)
        assert [answer.error.code for answer in answers_of(events, CLIENT)] == [1] * ROUNDS


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["subscriptionTable"][TOPIC].update(subVersion=1_795_724_349_245_570_957),
        lambda content: content["subscriptionTable"][TOPIC].update(subVersion=2**70),
        lambda content: content["subscriptionTable"][TOPIC].update(subString=7),
        lambda content: content["subscriptionTable"].update(X={"topic": ["X"]}),
        lambda content: content.update(subscriptionTable=7),
        lambda content: content.update(messageModel=3, consumeType={}),
        lambda content: content["connectionSet"][0].update(version="x", language=9, clientAddr=None),
        lambda content: content["connectionSet"].append({"clientAddr": "h:3"}),
        lambda content: content["connectionSet"].append("x"),
    ],
)
def test_the_member_list_depends_on_no_detail_of_it(change, control):
    events = collected(OddCluster(of_list(change)))
    assert of_group(events, HEALTHY) == of_group(control, HEALTHY)
    for event in events:
        if isinstance(event, ConsumerConnection) and event.group == ODD:
            assert event.error is None
            assert {one.client_id for one in event.connections} == {CLIENT, "java-client"}
    assert len(answers_of(events, CLIENT)) == ROUNDS


@pytest.mark.parametrize(
    ("cluster", "address"),
    [
        (CLUSTER, "127.0.0.1:99999"),
        (CLUSTER, "127.0.0.1:" + "9" * 5_000),
        (CLUSTER, "127.0.0.1:²"),
        (CLUSTER, "a\0b:10911"),
        (CLUSTER, "a..b:10911"),
        (CLUSTER, "a" * 64 + ".b:10911"),
        (CLUSTER, "\ud800:10911"),
        (CLUSTER, ""),
        (CLUSTER, 7),
        ("", "127.0.0.1:1"),
        ("x" * 2_000, "127.0.0.1:1"),
        ("\ud800", "127.0.0.1:1"),
        (None, "127.0.0.1:1"),
    ],
)
def test_a_registered_address_costs_its_own_broker_alone(cluster, address, control):
    """Anybody can register a broker at an open name server."""
    events = collected(OddCluster(brokers=[("evil", (cluster, address))]))
    assert of_group(events, HEALTHY) == of_group(control, HEALTHY)
    statuses = defaultdict(list)
    for event in events:
        if isinstance(event, BrokerStatus):
            statuses[event.broker].append(event.error)
    assert statuses["broker-a"] == [None] * ROUNDS
    assert {error.code for error in statuses["evil"]} <= {UNREACHABLE}


@pytest.mark.parametrize(("brokers_max", "files"), [(50, 1_000), (1_000, 101)])
def test_many_registered_brokers_delay_no_other_and_are_limited(brokers_max, files, control, monkeypatch):
    """Each needs two connections: without files for them an honest broker would look as one that is down."""
    monkeypatch.setattr("streaming.collect.collector.BROKERS", brokers_max)
    monkeypatch.setattr("streaming.collect.collector.files_for_connections", lambda: files)
    brokers = [(f"evil-{number}", (CLUSTER, f"127.0.0.1:{number + 1}")) for number in range(3_000)]
    events = collected(OddCluster(brokers=brokers))
    assert of_group(events, HEALTHY) == of_group(control, HEALTHY)
    assert len({event.broker for event in events if isinstance(event, BrokerStatus)}) == 50


class Mute(CountedCluster):
    """A broker that lists groups, and answers nothing about them."""

    def frame(self, question):
        return b"" if question.code == ReadCode.GET_CONSUMER_CONNECTION_LIST else super().frame(question)


def test_a_broker_that_is_silent_about_many_groups_uses_its_own_room(control):
    with Mute([f"evil-{number}" for number in range(100)]) as mute:
        cluster = OddCluster(brokers=[("evil", (CLUSTER, mute.address))])
        events = collected(cluster, parallelism=4, deadline_ms=3_000)
    assert of_group(events, HEALTHY) == of_group(control, HEALTHY)
    assert any(isinstance(event, GroupEvent) and event.group.startswith("evil") for event in events)


def test_hosts_whose_lookup_hangs_delay_no_event(monkeypatch):
    written, late = threading.Event(), []

    def hangs(host, *_, **__):
        if not written.wait(timeout=30):
            late.append(host)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    monkeypatch.setattr("streaming.collect.poll.CONNECT_SECONDS", 0.5)
    brokers = [(f"evil-{number}", (CLUSTER, f"{number}.evil.example:10911")) for number in range(50)]
    with OddCluster(brokers=brokers) as cluster:
        collector = {"name_servers": [cluster.address], "deadline_ms": 1_000, "parallelism": 256}
        asyncio.run(
            collect(load_settings(collector=collector), lambda _: written.set(), rounds=1, report=lambda _: None)
        )
    assert late == []


@pytest.mark.parametrize("size", [60_000, 500_000, 5_000_000])
def test_an_answer_that_does_not_end_costs_its_own_group_alone(monkeypatch, size):
    """The broker's connection is closed; then the requests that waited are sent one at a time, that one at the end."""
    for module in ("frames", "client"):
        monkeypatch.setattr(f"streaming.collect.{module}.FRAME_STALLED_SECONDS", 0.2)
    stuck, other = sorted([HEALTHY, ODD])

    def odd(question):
        is_of_members = question.code == ReadCode.GET_CONSUMER_CONNECTION_LIST
        is_stuck = is_of_members and question.fields["consumerGroup"] == stuck
        return answered(question, b" " * size)[:1_000] if is_stuck else None

    events = collected(OddCluster(odd), rounds=5, interval_ms=1_500, deadline_ms=1_400)
    answers = [event for event in events if isinstance(event, GroupEvent) and event.group == other and not event.error]
    for kind in (ConsumerConnection, ConsumeStats):
        assert sum(isinstance(event, kind) for event in answers) >= 3


def test_what_listens_at_a_registered_address_is_not_told():
    """It would make the collector a scanner of the ports of its network."""
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as other:

        def greet():
            with other.accept()[0] as client:
                client.sendall(b"SSH-2.0-x\r\n")
                client.recv(1_000)

        talking = threading.Thread(target=greet, daemon=True)
        talking.start()
        ports = {"silent": silent.getsockname()[1], "ssh": other.getsockname()[1], "shut": 1}
        brokers = [(name, (CLUSTER, f"127.0.0.1:{port}")) for name, port in ports.items()]
        events = collected(OddCluster(brokers=brokers), rounds=1)
        talking.join()
    failed = [event for event in events if isinstance(event, BrokerStatus) and event.error]
    assert {event.broker: event.error.remark for event in failed} == {
        name: f"127.0.0.1:{port}: no connection" for name, port in ports.items()
    }
    assert {event.error.code for event in failed} == {UNREACHABLE}


@pytest.mark.parametrize(
    ("networks", "is_reached"),
    [
        (["127.0.0.0/8"], True),
        (["localhost", "127.0.0.1"], True),
        (["10.0.0.0/8", "*.mq.example", "::1/128"], False),
        ([], True),  # the name server is on this machine, too
    ],
)
def test_only_brokers_in_the_allowed_networks_are_connected_to(networks, is_reached):
    with CountedCluster([]) as other:
        cluster = OddCluster(brokers=[("far", (CLUSTER, other.address))])
        events = collected(cluster, rounds=1, broker_networks=networks)
    [status] = [event for event in events if isinstance(event, BrokerStatus) and event.broker == "far"]
    assert (status.error is None) == is_reached
    assert is_reached or "is not allowed by collector.broker_networks" in status.error.remark


def test_a_broker_on_this_machine_is_reached_only_by_a_name_server_on_it(monkeypatch):
    async def resolved(_reach, host):
        return {"namesrv.example": ["10.0.0.5"], "evil.example": ["127.0.0.1"]}[host]

    monkeypatch.setattr(AllowedServers, "_resolved", resolved)
    for address in ("evil.example:22", "evil.example:10911"):
        with pytest.raises(NotReachedError):
            asyncio.run(AllowedServers(["namesrv.example:9876"]).find(address))
    assert asyncio.run(AllowedServers(["evil.example:9876"]).find("evil.example:10911"))
    assert asyncio.run(AllowedServers(["namesrv.example:9876"], ["evil.*"]).find("evil.example:10911"))


def test_200_kb_of_blanks_in_a_thread_dump_take_no_time(control):
    began = time.process_time()
    body = running_info(table([(key(0), process_queue()), (key(1), process_queue())]), jstack=" " * 200_000)
    events = collected(OddCluster(of_client(body)), stacks_after_ms=1)
    assert time.process_time() - began < 10
    assert answers_of(events, CLIENT)[0].queues == answers_of(control, CLIENT)[0].queues


def answers_of(events, client):
    """Return a client's answers in the odd group."""
    return [event for event in events if isinstance(event, ConsumerRunningInfo) and event.client_id == client]


def test_offsets_that_cant_be_read_cost_their_queue(control):
    def odd(question):
        if question.code != ReadCode.GET_CONSUME_STATS or question.fields["consumerGroup"] != ODD:
            return None
        row = {"brokerOffset": 60, "consumerOffset": 53, "pullOffset": 55, "lastTimestamp": NOW - 300}
        rows = [(key(0), row | {"consumerOffset": "x"}), (key(1), row | {"lastTimestamp": -1}), (key(2), row)]
        return answered(question, ('{"offsetTable":' + table(rows) + "}").encode())

    events = collected(OddCluster(odd))
    assert of_group(events, HEALTHY) == of_group(control, HEALTHY)
    [stats, *_] = [event for event in events if isinstance(event, ConsumeStats) and event.group == ODD]
    assert [(row.mq.queue_id, row.consumer_offset, row.last_time) for row in stats.queues] == [
        (1, 53, 0), (2, 53, NOW - 300),
    ]  # fmt: skip
    assert "consumerOffset" in stats.unreadable[0]
