"""Proxies are asked for the clients of each group, over real TCP; what one does costs itself, never a broker's poll."""

import asyncio
import functools
import json

import pytest

from rebalance_model.observe.events import (
    DEADLINE,
    UNREACHABLE,
    UNREADABLE,
    ConsumerConnection,
    GroupEvent,
    ProxyConnection,
)
from streaming.base.settings import load_settings
from streaming.collect.client import RpcFailedError
from streaming.collect.collector import RoundSchedule, collect
from streaming.collect.requests import ReadCode
from tests.support.counted_cluster import CountedCluster, answered
from tests.support.odd_cluster import HEALTHY, NOW, ODD, OddCluster
from tests.support.polling import polled
from tests.support.scripted_cluster import A, B, ScriptedCluster

STAMPS = ("time", "seq", "source_id", "asked", "answered")
NO_MEMBERS = 206


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Begin each round at once."""
    monkeypatch.setattr(RoundSchedule, "wait", lambda *_: 0.0)


class Proxy(CountedCluster):
    """A proxy's remoting server; ``answer`` makes the frame of an answer to 203, and all other requests have code 3."""

    def __init__(self, answer=None):
        super().__init__([])
        self._answer = answer or self.listed
        self.questions = []

    def frame(self, question):
        self.questions.append(question)
        if question.code != ReadCode.GET_CONSUMER_CONNECTION_LIST:
            return answered(question, code=3, remark=f" request type {question.code} not supported")
        return self._answer(question)

    @staticmethod
    def listed(question):
        """As a proxy of 5.4.0 lists a client that speaks gRPC; the other group has none."""
        if question.fields["consumerGroup"] != HEALTHY:
            return answered(question, code=NO_MEMBERS, remark="the consumer group not online")
        client = {"clientId": "vm@1@0@x", "clientAddr": "127.0.0.1:43254", "language": "JAVA", "version": 493}
        body = {
            "connectionSet": [client], "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
            "subscriptionTable": {"T": {"topic": "T", "subString": "*", "subVersion": NOW}},
        }  # fmt: skip
        return answered(question, json.dumps(body).encode())


def collected(*proxies, rounds=1, **changes):
    """Return the events of some rounds with these proxies, by their addresses."""
    events = []
    with OddCluster() as cluster:
        collector = {"name_servers": [cluster.address], "interval_ms": 10_000, "deadline_ms": 5_000}
        settings = load_settings(collector=collector | {"proxies": list(proxies)} | changes)
        asyncio.run(collect(settings, events.extend, rounds=rounds, report=lambda _: None))
    return events


def events_of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def of_proxies(events):
    return events_of(events, ProxyConnection)


def of_brokers(events):
    """Return what brokers and clients answered, without what differs from run to run, in an order that does not."""
    mine = [event for event in events_of(events, GroupEvent) if not isinstance(event, ProxyConnection)]
    return sorted(msg for event in mine for msg in [_without_stamps(event)])


def _without_stamps(event):
    return repr({name: getattr(event, name) for name in event.__struct_fields__ if name not in STAMPS})


@pytest.fixture(scope="module")
def control():
    """Return what the brokers and their clients answer in a round without a proxy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RoundSchedule, "wait", lambda *_: 0.0)
        return of_brokers(collected())


def test_a_proxy_is_asked_about_each_group_and_nothing_else(control):
    with Proxy() as proxy:
        events = collected(proxy.address)
    answers = of_proxies(events)
    assert [one.group for one in answers].count(HEALTHY) == [one.group for one in answers].count(ODD) == 1
    assert {(one.proxy, one.broker, one.error) for one in answers} == {(proxy.address, "", None)}
    clients = {(one.group, c.client_id, c.channel, c.language, c.version) for one in answers for c in one.connections}
    assert clients == {(HEALTHY, "vm@1@0@x", "127.0.0.1:43254", "JAVA", 493)}
    assert {s.topic for one in answers for s in one.subscriptions} == {"T"}
    assert {question.code for question in proxy.questions} == {ReadCode.GET_CONSUMER_CONNECTION_LIST}
    assert of_brokers(events) == control


@functools.cache
def _connections(count):
    rows = b",".join(b'{"clientId":"c%d","clientAddr":"h:1"}' % number for number in range(count))
    return b'{"connectionSet":[' + rows + b'],"subscriptionTable":{}}'


HOSTILE = {
    "10^6 values": (lambda question: answered(question, _connections(400_000)), {UNREADABLE, DEADLINE}),
    "10^5 connections": (lambda question: answered(question, _connections(100_000)), {UNREADABLE, DEADLINE}),
    "code 3": (lambda question: answered(question, code=3, remark=" request type 203 not supported"), {3}),
    "another code": (lambda question: answered(question, code=16, remark="no permission"), {16}),
    "never": (lambda _: b"", {DEADLINE}),
    "no JSON": (lambda question: answered(question, b"<html>"), {UNREADABLE}),
    "no frame": (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", {UNREACHABLE}),
    "nested deeply": (lambda question: answered(question, b'{"connectionSet":' + b"[" * 100_000), {UNREADABLE}),
    "a frame that does not end": (lambda _: b"\x00\xff\xff\xff", {UNREACHABLE}),
}


@pytest.mark.parametrize(("answer", "codes"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_proxy_costs_only_itself(answer, codes, control):
    with Proxy(answer) as hostile, Proxy() as other:
        events = collected(hostile.address, other.address, rounds=1, deadline_ms=4_000)
    assert of_brokers(events) == control
    answers = [one for one in of_proxies(events) if one.proxy == hostile.address]
    assert len(answers) == 2
    assert {one.error.code for one in answers} <= codes
    assert all(one.error.remark for one in answers)
    beside = [one for one in of_proxies(events) if one.proxy == other.address and one.group == HEALTHY]
    assert [[c.client_id for c in one.connections] for one in beside] == [["vm@1@0@x"]]
    if answers[0].error.code == DEADLINE:  # no broker's answer waits for it
        assert max(map(events.index, events_of(events, ConsumerConnection))) < min(map(events.index, answers))


def test_what_of_a_list_cant_be_read_is_said():
    body = b'{"connectionSet":[{"clientId":"x"},{"clientId":7},"y"],"subscriptionTable":3}'
    with Proxy(lambda question: answered(question, body)) as proxy:
        events = collected(proxy.address, rounds=1)
    for one in of_proxies(events):
        assert (one.error, one.incomplete, [c.client_id for c in one.connections]) == (None, True, ["x"])
        assert any("connectionSet" in text for text in one.unreadable)


def test_a_proxy_that_is_away_is_an_error_with_its_address(control):
    events = collected("127.0.0.1:1")
    assert of_brokers(events) == control
    assert {one.error.code for one in of_proxies(events)} == {UNREACHABLE}
    assert all("127.0.0.1:1" in one.error.remark for one in of_proxies(events))


def test_a_list_that_takes_long_to_read_takes_no_time_of_the_brokers():
    """The cost of its answers is counted for the proxy, not for the group."""
    rows = [{"clientId": f"c{n}", "clientAddr": "h:1"} for n in range(4_000)]
    body = json.dumps({"connectionSet": rows, "subscriptionTable": {}}).encode()
    with Proxy(lambda question: answered(question, body)) as proxy:
        events = collected(proxy.address, rounds=1)
    assert {one.error for one in events if isinstance(one, ConsumerConnection)} == {None}
    assert [len(one.connections) for one in of_proxies(events)] == [4_000, 4_000]


def test_requests_to_a_proxy_are_signed_as_those_to_brokers():
    with Proxy() as proxy, OddCluster() as cluster:
        settings = load_settings(
            collector={"name_servers": [cluster.address], "proxies": [proxy.address]},
            rocketmq={"access_key": "monitor", "secret_key": "secret"},
        )
        asyncio.run(collect(settings, lambda _: None, rounds=1, report=lambda _: None))
    fields = proxy.questions[0].fields
    assert fields["AccessKey"] == "monitor"
    assert {"Signature", "AccessKey", "consumerGroup"} <= fields.keys()


def rounds(cluster, number=1, before=lambda _: None):
    """Return the events of some rounds with two scripted proxies; ``before`` is called before each, by its number."""

    async def talk(poller):
        for at in range(number):
            before(at)
            await poller.round()
        await poller.drain()

    return polled(cluster, talk, proxies=("p:1", "q:1"))


def test_a_group_of_several_brokers_is_asked_about_once():
    events = rounds(ScriptedCluster([A, B], groups=("g", "h")))
    found = sorted((one.proxy, one.group) for one in of_proxies(events))
    assert found == [("p:1", "g"), ("p:1", "h"), ("q:1", "g"), ("q:1", "h")]


def test_a_silent_proxy_is_asked_once_a_round_and_each_group_says_why():
    """Until it answers: then about all, in the same round."""
    cluster = ScriptedCluster([A], members=(), groups=[f"g{n}" for n in range(20)])
    cluster.failures = {("proxy_connection", "p:1"): RpcFailedError(DEADLINE, "no answer")}
    events = rounds(cluster, 3)
    assert cluster.asked.count(("proxy_connection", "p:1")) == 20 + 1 + 1
    of_p = [one for one in of_proxies(events) if one.proxy == "p:1"]
    assert sorted(one.group for one in of_p) == sorted(3 * [f"g{n}" for n in range(20)])
    assert {(one.error.code, one.error.remark) for one in of_p} == {(DEADLINE, "no answer")}
    assert len([one for one in of_proxies(events) if one.proxy == "q:1"]) == 3 * 20


def test_a_proxy_that_answers_again_is_asked_about_all_groups_at_once():
    cluster = ScriptedCluster([A], members=(), groups=[f"g{n}" for n in range(20)])
    cluster.failures = {("proxy_connection", "p:1"): RpcFailedError(3, "not supported")}

    def back(number):
        if number == 2:
            cluster.failures.clear()

    of_p = [one for one in of_proxies(rounds(cluster, 3, before=back)) if one.proxy == "p:1"]
    assert len(of_p) == 3 * 20
    assert [one.error is None for one in of_p] == 40 * [False] + 20 * [True]


def test_no_more_requests_are_open_at_a_proxy_than_at_a_broker():
    cluster = ScriptedCluster([A], members=(), groups=[f"g{n}" for n in range(40)])
    cluster.delays = {("proxy_connection", "p:1"): 0.01}
    rounds(cluster)
    assert cluster.most_under_way["p:1"] == 4
