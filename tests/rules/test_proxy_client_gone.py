"""PROXY_CLIENT_GONE: the heartbeats of a proxy's client have ended, and it did not sign off."""

from rebalance_model.observe.events import BrokerStatus
from rebalance_model.observe.hooks import pops
from rebalance_model.observe.hooks.pops import SOURCES_MAX
from tests.support.hook_trace import A, B
from tests.support.incident_rows import distinct_transitions, evidence, rows
from tests.support.pop_trace import PROXY, PopTrace
from tests.support.trace import START

MINE = "PROXY_CLIENT_GONE"


def beating(until: int, *clients: str) -> PopTrace:
    trace = PopTrace().boots(0).ticks(0, A)
    for at in range(0, until, 10):
        for client in clients:
            trace.proxied(at, client)
    return trace


def test_a_client_whose_heartbeats_end():
    trace = beating(60, "x", "y")
    for at in range(60, 200, 10):
        trace.proxied(at, "y")
    assert distinct_transitions(trace, MINE) == [(80.001, "OPENED", MINE), (180.001, "RESOLVED", MINE)]
    assert (rows(trace, MINE)[0].severity, rows(trace, MINE)[0].client_id) == ("warning", "x")
    assert evidence(trace, MINE)[0] == {
        "topic": None, "proxy": "10.0.0.9%8080%8081", "language": "JAVA",
        "heartbeat_age_ms": 30_001, "limit_ms": 30_000,
    }  # fmt: skip


def test_one_that_signs_off_is_not_gone():
    trace = beating(60, "x").proxied(55, "x", registers=False).passes(200)
    assert trace.incidents(MINE) == []


def test_heartbeats_that_come_every_30_s_are_a_near_miss():
    trace = PopTrace().boots(0).ticks(0, A)
    for at in range(0, 200, 30):
        trace.proxied(at, "x")
    assert trace.incidents(MINE) == []


def test_a_broker_without_a_hook_may_have_got_the_heartbeats():
    trace = beating(60, "x")
    now = trace.clock(61)
    trace._observe(BrokerStatus(asked=now, answered=now, boot_time=START, broker=B, **trace._of_collector(now)))
    assert trace.passes(100).incidents(MINE) == []


def test_what_it_held_is_its_child():
    """Its proxy keeps its messages until it drops it."""
    trace = beating(30, "x").pops(1, PROXY, order=True).changes(55, PROXY, 7, popped=1, to=60, order=True).passes(70)
    [stuck] = rows(trace, "ORDERED_QUEUE_STUCK")
    assert stuck.parent == rows(trace, MINE)[0].incident_id
    assert evidence(trace, MINE)[0]["topic"] == stuck.topic  # without it mqadmin consumerProgress fails


def test_a_proxy_that_no_longer_lists_it_has_dropped_it():
    """Before that, its list has it for two minutes."""
    trace = beating(60, "x").passes(80)
    trace.proxy(85, "x")
    assert distinct_transitions(trace, MINE) == [(80.001, "OPENED", MINE)]
    trace.proxy(95, address="proxy-2:8080").proxy(96)
    assert distinct_transitions(trace, MINE)[1:] == [(96, "RESOLVED", MINE)]


def test_a_client_that_is_not_listed_yet_is_not_dropped():
    trace = beating(60, "x").proxy(61).passes(85)
    assert distinct_transitions(trace, MINE) == [(80.001, "OPENED", MINE)]


def test_heartbeats_that_were_lost_prove_nothing():
    trace = beating(60, "x")
    trace.hook_seq["broker-a-0"] += 1
    trace.proxied(75, "y").passes(104)
    assert trace.incidents(MINE) == []
    trace.passes(106)
    assert {row.client_id for row in rows(trace, MINE)} == {"x", "y"}


def test_a_minute_without_any_telemetry_proves_nothing():
    """The only hook's disk was full: a group behind proxies is not known by anything else."""
    trace = beating(60, "x").stands(61, 121).proxied(125, "x").passes(154)
    assert trace.incidents(MINE) == []


def test_no_more_hooks_are_kept_of_a_group_than_its_bound():
    trace = beating(20, "x")
    trace.state.pops.sources = dict.fromkeys(map(str, range(SOURCES_MAX)))
    assert len(trace.proxied(21, "x").state.pops.sources) == SOURCES_MAX


def test_one_that_is_back_ends_it_at_once():
    trace = beating(60, "x").passes(90).proxied(91, "x")
    assert distinct_transitions(trace, MINE) == [(80.001, "OPENED", MINE), (91, "RESOLVED", MINE)]


def test_refused_heartbeats_and_ends_of_unknown_clients_name_none():
    trace = PopTrace().boots(0).ticks(0, A).proxied(1, "x", code=1).proxied(2, "y", registers=False)
    assert trace.passes(100).incidents(MINE) == []
    assert trace.state.pops.proxied == {}


def test_no_more_clients_of_proxies_are_kept_of_a_group_than_its_bound(monkeypatch):
    monkeypatch.setattr(pops, "CLIENTS_MAX", 1)
    trace = beating(60, "x", "y").passes(100)
    assert {row.client_id for row in rows(trace, MINE)} == {"x"}
