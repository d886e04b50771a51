"""ROUTE_VIEW_SPLIT: a client that works with a former route."""

from dataclasses import replace

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import TopicRoute
from rebalance_model.observe.policy import Policy
from tests.support.hook_trace import A, B, HookTrace
from tests.support.rounds import FOUR, MINE, OWN, evidence, rounds
from tests.support.trace import START, Trace, holding


def test_issue_1467_a_client_that_works_with_the_former_route():
    """At 20 the topic grows from 4 queues to 8: b follows and takes its half, a keeps its half of the four."""
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, FOUR, route=8)
    split = {"a": holding(0, 1), "b": holding(4, 5, 6, 7)}
    rounds(trace, 30, 120, split)
    rounds(trace, 120, 140, {"a": holding(0, 1, 2, 3), "b": holding(4, 5, 6, 7)})
    assert trace.incidents("ROUTE_VIEW_SPLIT") == [
        (90, "OPENED", "ROUTE_VIEW_SPLIT"),
        (120, "RESOLVED", "ROUTE_VIEW_SPLIT"),
    ]
    found = evidence(trace, "ROUTE_VIEW_SPLIT")
    assert (found["topic"], found["queues"], found["former_queues"], found["who"]) == ("Orders", 8, 4, "a")


def test_without_a_known_strategy_no_member_has_the_former_route():
    own = {"a": replace(holding(0, 3), strategy=OWN), "b": replace(holding(1, 2), strategy=OWN)}
    trace = rounds(Trace(), 0, 20, own)
    trace.poll(20, own, route=8)
    rounds(trace, 30, 120, own)
    assert trace.incidents("ROUTE_VIEW_SPLIT", "REBALANCE_STALLED") == []


def test_clients_that_follow_the_route_within_60_s_are_a_near_miss():
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, FOUR, route=8)
    rounds(trace, 30, 80, {"a": holding(0, 1), "b": holding(4, 5, 6, 7)})
    rounds(trace, 80, 120, {"a": holding(0, 1, 2, 3), "b": holding(4, 5, 6, 7)})
    assert trace.incidents(*MINE) == []
    assert trace.state.routes["Orders"].former == ()


def test_shares_are_compared_60_s_after_a_member_came_or_went():
    """From the simulation, seed 3013: as members return, one has the share of a former route for a moment."""
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, FOUR, route=8)
    split = {"a": holding(0, 1), "b": holding(4, 5, 6, 7)}
    rounds(trace, 30, 60, split)
    rounds(trace, 60, 110, {"b": split["b"]})
    rounds(trace, 110, 170, split)
    assert trace.incidents("ROUTE_VIEW_SPLIT") == []
    assert rounds(trace, 170, 180, split).incidents("ROUTE_VIEW_SPLIT") == [(170, "OPENED", "ROUTE_VIEW_SPLIT")]


def test_a_route_that_is_empty_for_a_while_is_no_split():
    trace = rounds(Trace(), 0, 20, FOUR)
    trace._fold(TopicRoute(topic="Orders", queues=(), **trace._poll(START + 15_000)))
    rounds(trace, 20, 120, FOUR)
    assert trace.incidents(*MINE) == []


def test_a_strategy_that_every_client_refuses_shows_no_former_route():
    """No broker is in a room: each client throws, and keeps what it has."""
    rooms = {"broker_deploy_in": "^(room[0-9])", "consumer_deploy_in": "(.)"}
    trace = rounds(Trace(policy=Policy(allocate_strategy="MACHINE_ROOM_NEARBY-AVG", **rooms)), 0, 20, FOUR)
    trace.poll(20, FOUR, route=8)
    rounds(trace, 30, 120, {"a": holding(0, 1), "b": holding(4, 5, 6, 7)})
    assert trace.incidents("ROUTE_VIEW_SPLIT") == []


def ordered_split(until: int, repaired: int = 10_000) -> HookTrace:
    """From 100 s on the name server of b lacks broker-b: b requests half of broker-a's locks, and a keeps them."""
    trace = HookTrace()
    for broker in (A, B):
        trace.of(broker).boots(0)
    for at in range(1, until, 10):
        is_behind = 100 <= at < repaired
        for broker in (A, B):
            if at % 30 == 1:
                trace.of(broker).heart_beat(at, "a", "b")
        trace.of(A).locks(at, "a", 0, 1, 2, 3).pulls(at, "a", 0, 1, 2, 3)
        if at == 101:
            trace.of(B).unlocks(at, "b", 0, 1, 2, 3)
        if is_behind:
            trace.of(A).locks(at + 1, "b", 2, 3, granted=())
        else:
            trace.of(B).locks(at + 1, "b", 0, 1, 2, 3).pulls(at + 1, "b", 0, 1, 2, 3)
        for broker in (A, B):
            trace.of(broker).passes(at + 9)
    return trace


def test_an_ordered_client_shows_its_route_by_the_locks_that_it_requests():
    trace = ordered_split(260)
    assert [one for _, *one in trace.incidents("ROUTE_VIEW_SPLIT")] == [["OPENED", "ROUTE_VIEW_SPLIT NAME_SERVERS"]]
    found = evidence(trace, "ROUTE_VIEW_SPLIT")
    assert (found["who"], found["route_lacks"]) == ("b", "broker-b")
    refused = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "LOCK_CONTENDED"]
    assert refused
    assert refused[-1].parent is not None


def test_locks_that_are_refused_for_50_s_are_a_near_miss():
    assert ordered_split(260, repaired=150).incidents("ROUTE_VIEW_SPLIT") == []


def test_a_split_by_locks_ends_with_it():
    trace = ordered_split(400, repaired=260)
    assert [one for _, one, _ in trace.incidents("ROUTE_VIEW_SPLIT")] == ["OPENED", "RESOLVED"]
