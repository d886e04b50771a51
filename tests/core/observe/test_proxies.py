"""The clients that proxies list: they count for a group's health, and are no members of any broker."""

import json

import pytest

from rebalance_model.observe.effects import GroupSnapshot, QueueSnapshot, RebalanceSettled
from rebalance_model.observe.events import DEADLINE, UNREADABLE, ConsumeStats, RpcError, Subscription
from rebalance_model.observe.group.deleted_group import GROUP_DELETED, GROUP_NOT_EXIST
from rebalance_model.observe.group.proxied import PROXIED_FORGOTTEN
from rebalance_model.observe.polls.connections import CLIENTS_MAX, PROXIES_MAX, TOPICS_MAX
from rebalance_model.observe.state import ProxyView, decode_group, encode_group
from tests.support.pop_trace import PROXY as CHANNEL
from tests.support.pop_trace import PopTrace
from tests.support.trace import PROXY, START, Trace, holding

LATE = RpcError(code=DEADLINE, remark="no answer from proxy-1:8080 within 9.0 s")


def grpc_group(until: int, *clients: str, every: int = 10) -> Trace:
    """No broker lists a client; the proxy does; commits advance."""
    trace = Trace()
    for at in range(0, until, every):
        trace.poll(at, {}, dict.fromkeys(range(4), (100 + at, 100 + at))).proxy(at + 0.1, *clients)
    return trace


def groups(trace: Trace) -> list[GroupSnapshot]:
    return [row for row in trace.effects if isinstance(row, GroupSnapshot)]


def statuses(trace: Trace) -> set[tuple[str, str]]:
    last = {row.queue_id: row for row in trace.effects if isinstance(row, QueueSnapshot)}
    return {(row.status, row.status_reason) for row in last.values()}


def test_a_group_whose_clients_a_proxy_lists_is_well():
    trace = grpc_group(40, "x", "y")
    last = groups(trace)[-1]
    assert (last.health, last.health_reason) == ("OK", "its clients are behind a proxy that lists them")
    assert last.proxied_clients == ("x", "y")
    assert last.members == ()
    assert statuses(trace) == {("OK", "shared: clients of a proxy pop it")}
    assert json.loads(last.coverage)["sharing"] == "PROXIED"


def test_they_are_no_view_of_a_broker_and_cause_no_rebalance():
    trace = grpc_group(40, "x", "y")
    trace.poll(50, {}, {}).proxy(50.1, "x", "z")
    assert trace.state.views.keys() == {"broker-a"}
    assert trace.state.members == ()
    assert trace.state.causes == ()
    assert trace.state.episode is None
    assert not [row for row in trace.effects if isinstance(row, RebalanceSettled)]
    assert trace.incidents() == []


def test_members_of_a_broker_divide_the_queues_whatever_proxies_list():
    """A proxy lists remoting clients, too, and hostile ones list anything."""
    alone, beside = Trace(), Trace()
    for at in range(0, 200, 10):
        members = {"a": holding(0, 1), "b": holding(2, 3)}
        for trace in (alone, beside):
            trace.poll(at, members, dict.fromkeys(range(4), (100 + at, 100 + at)))
        beside.proxy(at + 0.1, "x", "a", *(f"c{n}" for n in range(at)))
    assert beside.owners() == alone.owners() == {0: "a", 1: "a", 2: "b", 3: "b"}
    assert beside.incidents() == alone.incidents() == []
    assert len(beside.rebalances()) == len(alone.rebalances())
    assert {row.health for row in groups(beside)[1:]} == {"OK"}
    sharing = {json.loads(row.coverage)["sharing"] for row in groups(beside)}
    assert sharing == {json.loads(row.coverage)["sharing"] for row in groups(alone)}


def test_without_a_proxy_the_health_is_unknown_as_before():
    trace = Trace()
    for at in range(0, 40, 10):
        trace.poll(at, {}, dict.fromkeys(range(4), (100 + at, 100 + at)))
    reason = "commits advance, but no client is listed: they are behind a proxy"
    assert (groups(trace)[-1].health, groups(trace)[-1].health_reason) == ("UNKNOWN", reason)
    assert statuses(trace) == {("UNKNOWN", "no known owner")}
    assert groups(trace)[-1].proxied_clients is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LATE, "no answer from proxy-1:8080 within 9.0 s"),
        (RpcError(code=3, remark=" request type 203 not supported"), "code 3: request type 203 not supported"),
        (RpcError(code=16, remark="no permission"), "code 16: no permission"),
        (RpcError(code=UNREADABLE, remark="it is no JSON"), "it is no JSON"),
        (RpcError(code=1), "code 1"),
    ],
)
def test_a_proxy_that_does_not_answer_costs_only_what_it_lists(error, said):
    """One missing answer is none; after two its last list counts for nothing, and nobody is taken to have left."""
    trace = grpc_group(20, "x").proxy(20.1, error=error)
    assert groups(trace)[-1].health == "OK"
    trace.poll(30, {}, dict.fromkeys(range(4), (200, 200))).proxy(30.1, error=error)
    last = groups(trace)[-1]
    is_away = said.startswith("no answer")
    why = ("BAD", "PROXY_UNREACHABLE") if is_away else ("UNKNOWN", "no list of clients from the proxy proxy-1:8080")
    assert (last.health, last.health_reason) == why
    assert json.loads(last.coverage)["unreadable"] == [f"proxy proxy-1:8080: {said}"]
    assert trace.state.proxied_left_at == 0
    trace.poll(40, {}, dict.fromkeys(range(4), (200, 200))).proxy(40.1, "x").tick(101)
    assert groups(trace)[-1].health == "OK"


def test_of_two_proxies_one_is_enough():
    trace = grpc_group(20, "x")
    for at in range(20, 60, 10):
        trace.poll(at, {}, {0: (200 + at, 200 + at)}).proxy(at + 0.1, error=LATE, address="proxy-2:8080")
        trace.proxy(at + 0.2, "x")
    assert groups(trace)[-1].health == "OK"
    assert json.loads(groups(trace)[-1].coverage)["unreadable"] == [f"proxy proxy-2:8080: {LATE.remark}"]


def test_an_answer_to_an_older_request_changes_nothing():
    trace = grpc_group(20, "x").proxy(21, "x", "y").proxy(22, "x", asked=START + 5_000)
    assert groups(trace)[-1].proxied_clients == ("x", "y")


def test_a_client_whose_row_cant_be_read_has_not_left():
    why = ("connectionSet, version: Expected `int`, got `str` (y)",)
    trace = grpc_group(20, "x", "y").proxy(21, "x", incomplete=True, unreadable=why)
    assert groups(trace)[-1].proxied_clients == ("x", "y")
    assert json.loads(groups(trace)[-1].coverage)["unreadable"] == [f"proxy {PROXY}: {why[0]}"]


def test_a_list_of_a_million_is_kept_in_part_and_says_so():
    trace = grpc_group(20, "x").proxy(21, *(f"c{n:06}" for n in range(CLIENTS_MAX + 7)))
    assert len(trace.state.proxies[PROXY].clients) == CLIENTS_MAX
    [said] = json.loads(groups(trace)[-1].coverage)["unreadable"]
    assert said == f"proxy {PROXY}: connectionSet: 7 clients more than {CLIENTS_MAX:,}"
    named = tuple(Subscription(topic=f"t{n}", sub_string="*") for n in range(TOPICS_MAX + 7))
    trace.proxy(22, "x", subscriptions=named)
    assert len(trace.state.proxies[PROXY].topics) == TOPICS_MAX
    for n in range(PROXIES_MAX + 7):
        trace.proxy(23 + n / 100, address=f"p{n}:1")
    assert len(trace.state.proxies) == PROXIES_MAX


def test_a_proxy_that_is_no_longer_asked_is_forgotten_and_nobody_has_left():
    trace = grpc_group(20, "x")
    at = 20
    while trace.state.proxies and at < 1_000:
        trace.poll(at, {}, {0: (200 + at, 200 + at)})
        at += 10
    assert PROXIED_FORGOTTEN < at * 1_000 <= PROXIED_FORGOTTEN + 310_000
    assert trace.state.proxied_left_at == 0
    assert groups(trace)[-1].health == "UNKNOWN"
    assert groups(trace)[-1].proxied_clients is None


def test_while_the_collector_is_silent_nothing_is_forgotten():
    trace = grpc_group(20, "x")
    trace.falls_silent(100, "c/poll-1")
    trace.tick(2_000)
    assert trace.state.proxies.keys() == {PROXY}
    trace.is_back(2_001, "c/poll-1").poll(2_002, {}, {0: (200, 200)}).proxy(2_003, "x")
    assert groups(trace)[-1].health == "OK"


def test_a_client_is_seen_by_its_heartbeats_or_by_a_list():
    """The list shows it until its proxy drops it; a heartbeat without a list may be of another proxy's client."""
    trace = PopTrace().boots(0).ticks(0, "broker-a").proxied(1, "beats")
    assert groups(trace)[-1].proxied_clients == ("beats",)
    trace.proxy(2, "listed")
    assert groups(trace)[-1].proxied_clients == ("beats", "listed")
    assert trace.pops(3, CHANNEL).state.pops.proxied.keys() == {"beats"}


def test_a_saved_state_has_the_lists():
    state = grpc_group(20, "x").state
    loaded = decode_group(encode_group(state))
    assert loaded.proxies == state.proxies
    assert isinstance(loaded.proxies[PROXY], ProxyView)


def test_a_group_that_every_broker_lost_is_deleted_whatever_proxies_list():
    trace = grpc_group(20, "x")
    for at in range(20, 200, 10):
        trace.poll(at, {}).proxy(at + 0.1, "x")
        trace._fold(ConsumeStats(error=RpcError(code=GROUP_NOT_EXIST), **trace._poll(trace.now)))
    assert (groups(trace)[-1].health, groups(trace)[-1].health_reason) == ("UNKNOWN", GROUP_DELETED)
