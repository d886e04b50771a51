"""POP_NOT_ACKING: a member gets messages by POPs, and finishes none."""

import pytest

from rebalance_model.observe.hooks import pops
from tests.support.hook_trace import B
from tests.support.incident_rows import distinct_transitions, evidence, rows
from tests.support.pop_trace import PopTrace, popping

MINE = "POP_NOT_ACKING"


def test_a_member_that_gets_messages_and_finishes_none_for_a_minute():
    trace = popping("a", "b", until=70, acks=("a",))
    assert distinct_transitions(trace, MINE) == [(60.101, "OPENED", MINE)]
    assert (rows(trace, MINE)[0].severity, rows(trace, MINE)[0].client_id) == ("critical", "b")
    found = evidence(trace, MINE)[0]
    assert (found["pops_without_messages"], found["not_acking_ms"], found["limit_ms"]) == (12, 60_001, 60_000)
    assert found["pops"] > 50


def test_it_stays_while_the_full_member_pops_no_more_and_ends_with_an_ack():
    trace = popping("b", until=70).heart_beat(90, "b").passes(110)
    assert distinct_transitions(trace, MINE) == [(60.101, "OPENED", MINE)]
    trace.heart_beat(118, "b").acks(120, "b", 0, popped=60).passes(166)
    assert distinct_transitions(trace, MINE)[-1] == (165, "RESOLVED", MINE)  # it explains that it does not pop


def test_a_refusal_is_an_end_of_a_message_too():
    trace = popping("b", until=50).changes(51, "b", 0, popped=40, to=10)
    popping("b", until=20, trace=trace)
    assert trace.incidents(MINE) == []


def test_a_member_that_gets_nothing_pops_every_15_s_and_is_a_near_miss():
    assert popping("a", until=300, every=15).incidents(MINE) == []


def test_calls_of_a_proxy_are_of_no_member():
    trace = PopTrace().boots(0).heart_beat(0, "a")
    for at in range(1, 100):
        trace.pops(at, "10.0.0.9:8080")
        if at % 30 == 0:
            trace.heart_beat(at + 0.5, "a")
    assert trace.incidents(MINE) == []


def test_a_hook_that_is_silent_may_hide_its_acknowledgements():
    trace = popping("b", until=40)
    trace.falls_silent(41, "c/hook-broker-a-0")
    popping("b", until=40, trace=trace.of(B).boots(42))
    assert trace.passes(200).incidents(MINE) == []


def test_a_member_that_leaves_is_not_waited_for():
    trace = popping("b", until=70).leaves(71, "b")
    assert distinct_transitions(trace, MINE)[-1] == (71, "RESOLVED", MINE)


def test_lost_calls_may_have_been_acknowledgements():
    trace = popping("b", until=50)
    trace.hook_seq["broker-a-0"] += 1
    trace.heart_beat(58, "b").pops(59, "b").passes(70)
    assert trace.incidents(MINE) == []


def test_a_busy_member_that_is_killed_pops_no_more():
    """By its hook alone it stays listed; each of its POPs was answered, and the messages acknowledged."""
    trace = PopTrace().boots(0).heart_beat(0, "a")
    for tenth in range(580):
        trace.pops(tenth / 10 + 0.01, "a").acks(tenth / 10 + 0.05, "a", tenth, popped=tenth / 10)
    trace.heart_beat(57.99, "a").passes(117)
    assert trace.incidents(MINE) == []


def behind_proxy(*clients: str, until: int, every: float = 1, acks: bool = False, **fields) -> PopTrace:
    """A proxy pops for its clients, each a message a second, on two channels in turn."""
    trace, offset = PopTrace().boots(0), 0
    for at in range(until):
        for number, client in enumerate(clients):
            if at % 10 == 0:
                trace.proxied(at + 0.1, client)
            if at % every == 0:
                trace.pops(at + 0.2, f"10.0.0.9:{8080 + number}", **fields)
            if acks:
                trace.acks(at + 0.5, f"10.0.0.9:{9090 + number}", offset, popped=at + 0.2)
                offset += 1
    return trace


@pytest.mark.parametrize("clients", [("c",), ("c", "d", "e")])
def test_clients_of_a_proxy_that_finish_nothing_are_said_by_its_channels(clients):
    trace = behind_proxy(*clients, until=75)
    assert distinct_transitions(trace, MINE) == [(60.201, "OPENED", f"{MINE} BEHIND_PROXY")]
    [row] = rows(trace, MINE)
    assert (row.subject, row.client_id) == ("proxy 10.0.0.9", "c" if len(clients) == 1 else None)
    trace.acks(80, "10.0.0.9:7000", 3, popped=70)
    assert distinct_transitions(trace, MINE)[-1] == (80, "RESOLVED", f"{MINE} BEHIND_PROXY")


@pytest.mark.parametrize("given", [{"every": 15}, {"acks": True}, {"order": True}, {"code": 210}])
def test_clients_that_get_nothing_or_finish_it_are_near_misses(given):
    assert behind_proxy("c", until=130, **given).incidents(MINE) == []


def test_a_silent_hook_may_hide_the_acknowledgements_of_a_proxys_clients():
    trace = behind_proxy("c", until=50)
    trace.falls_silent(51, "c/hook-broker-a-0")
    assert trace.passes(100).incidents(MINE) == []


def test_a_proxy_of_which_its_hook_reports_nothing_for_long_is_forgotten():
    trace = behind_proxy("c", until=75)
    trace.falls_silent(77, "c/hook-broker-a-0")
    assert [what for _, what, _ in distinct_transitions(trace.passes(600), MINE)] == ["OPENED"]
    assert [what for _, what, _ in distinct_transitions(trace.passes(800), MINE)] == ["OPENED", "RESOLVED"]
    assert evidence(trace, MINE)[-1] == {"member": False}


def test_no_more_proxies_are_kept_of_a_group_than_its_bound(monkeypatch):
    monkeypatch.setattr(pops, "PROXIES_MAX", 1)
    trace = behind_proxy("c", until=75)
    for at in range(75):
        trace.pops(75 + at, "10.0.0.8:8080")
    assert {row.subject for row in rows(trace, MINE)} == {"proxy 10.0.0.9"} == trace.state.pops.proxies.keys()
