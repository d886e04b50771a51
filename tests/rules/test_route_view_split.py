"""ROUTE_VIEW_SPLIT: a client that works with a former route."""

from dataclasses import replace

from rebalance_model.observe.events import TopicRoute
from rebalance_model.observe.policy import Policy
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
