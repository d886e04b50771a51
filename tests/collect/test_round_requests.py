"""The requests of a round, as its trace has them: by server, and of a limited number of servers."""

import pytest

from rebalance_model.observe.events import UNREACHABLE
from streaming.collect.client import RpcFailedError
from streaming.collect.requests import ReadCode
from streaming.collect.rpc import SERVERS_MAX, RoundRequests

STATS, MEMBERS = ReadCode.GET_CONSUME_STATS, ReadCode.GET_CONSUMER_CONNECTION_LIST
_NOT_ONLINE = 206


def ask(requests, address, code, failure=None):
    if failure is None:
        with requests.timed(address, code):
            return
    with pytest.raises(RpcFailedError), requests.timed(address, code):
        raise RpcFailedError(failure, "why")


def test_requests_are_counted_by_server_and_code():
    requests = RoundRequests()
    ask(requests, "h:1", STATS)
    ask(requests, "h:1", STATS, UNREACHABLE)
    ask(requests, "h:1", MEMBERS, _NOT_ONLINE)
    ask(requests, "h:2", MEMBERS)
    first, second = requests.take({"h:1": "broker a"}, 0)
    assert (first.name, second.name) == ("requests to broker a", "requests to h:2")
    assert first.attributes["requests.get_consume_stats"] == 2
    assert first.attributes["requests"] == 3
    assert first.attributes["unanswered"] == 1, "a code of RocketMQ is an answer"
    assert first.began_ns <= first.ended_ns
    assert requests.take({}, 0) == ()


def test_a_request_of_the_round_before_begins_with_the_round():
    requests = RoundRequests()
    ask(requests, "h:1", STATS)
    [span] = requests.take({}, 1 << 62)
    assert span.began_ns == 1 << 62


def test_servers_beyond_the_limit_share_a_span():
    requests = RoundRequests()
    for number in range(SERVERS_MAX + 10):
        ask(requests, f"h:{number}", STATS)
    spans = requests.take({}, 0)
    assert len(spans) == SERVERS_MAX + 1
    assert spans[-1].attributes["requests"] == 10
