"""REBALANCE_STALLED: owners do not change although they should."""

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import Connection, ConsumerConnection, TopicRoute
from tests.support.rounds import FOUR, concurrent, evidence, rounds
from tests.support.trace import SILENT, START, TOPIC, Held, Member, Trace, holding, mq


def test_a_rebalance_stalls_if_no_client_follows_the_route():
    """Issue 3138: the rebalance threads hang in an RPC. Changed at 20; by 80 every owner should be another."""
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, FOUR, route=8)
    rounds(trace, 30, 110, FOUR)
    rounds(trace, 110, 130, {"a": holding(0, 1, 2, 3), "b": holding(4, 5, 6, 7)})
    assert trace.incidents("ROUTE_VIEW_SPLIT", "REBALANCE_STALLED") == [
        (90, "OPENED", "REBALANCE_STALLED"),
        (110, "RESOLVED", "REBALANCE_STALLED"),
    ]
    found = evidence(trace, "REBALANCE_STALLED")
    assert (found["queues_behind"], found["first"], found["owner"]) == (6, "Orders@broker-a:2", "b")


def test_queues_that_are_taken_while_their_owner_keeps_them_are_no_stall():
    """a works with the new route and takes 2 and 3, which b keeps: it does not see that the topic has 7 queues now."""
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    trace.poll(20, {"a": concurrent(0, 1), "b": concurrent(2, 3)}, route=7)
    rounds(trace, 30, 140, {"a": concurrent(0, 1, 2, 3), "b": concurrent(2, 3)})
    assert trace.incidents("REBALANCE_STALLED") == []
    assert {what for _, _, what in trace.incidents("QUEUE_DOUBLE_OWNED")} == {"QUEUE_DOUBLE_OWNED"}


def test_one_queue_that_moves_is_no_stall():
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, FOUR, route=8)
    rounds(trace, 30, 110, {"a": holding(0, 1, 2), "b": holding(3)})
    assert trace.incidents("REBALANCE_STALLED") == []


@pytest.mark.parametrize(
    "mine",
    [
        SILENT,  # CLIENT_UNRESPONSIVE reports that
        Member((Held(0), Held(1), Held(2, dropped=True, unlock_attempts=1), Held(3, dropped=True, unlock_attempts=1))),
    ],
)
def test_a_queue_that_waits_for_something_else_is_no_stall(mine):
    """b is to take 2 and 3 over from a, who is silent, or whose listener keeps them from being unlocked."""
    trace = rounds(Trace(), 0, 20, {"a": holding(0, 1, 2, 3)})
    rounds(trace, 20, 110, {"a": mine, "b": holding()})
    assert trace.incidents("REBALANCE_STALLED") == []


def test_a_rebalance_stalls_60_s_after_the_remaining_lock_expired():
    """b was killed between 10 and 20; renewed just before, its locks live until 80. Nobody takes its queues."""
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 160, {"a": holding(0, 1)})
    assert trace.incidents("REBALANCE_STALLED") == [(150, "OPENED", "REBALANCE_STALLED")]


@pytest.mark.parametrize(("listed_at_both", "stalls"), [(False, False), (True, True)])
def test_while_brokers_list_different_members_nothing_stalls(listed_at_both, stalls):
    """c is listed by broker-a alone: whoever asks broker-b shares the queues out without it. CID_VIEW_SPLIT says so."""
    trace = Trace()
    route = (*(mq(number) for number in range(4)), MessageQueue(TOPIC, "broker-b", 0))
    for at in range(0, 140, 10):
        members = {"a": holding(0, 1), "b": holding(2, 3)} | ({"c": holding()} if at >= 20 else {})
        now = START + 1000 * at
        trace.tick(at)._fold(TopicRoute(topic=TOPIC, queues=route, **trace._poll(now)))
        trace.status(at)._fold(trace._connections(members, now))
        at_b = [one for one in members if one != "c" or listed_at_both]
        rows = tuple(Connection(client_id=one, channel=f"{one}:0") for one in at_b)
        trace._fold(ConsumerConnection(connections=rows, **trace._poll(now) | {"broker": "broker-b"}))
        for client_id, member in members.items():
            trace._fold(trace._answer(client_id, member, now))
    assert [what for _, _, what in trace.incidents("CID_VIEW_SPLIT")] == ([] if stalls else ["CID_VIEW_SPLIT"])
    assert [what for _, _, what in trace.incidents("REBALANCE_STALLED")] == (["REBALANCE_STALLED"] if stalls else [])
