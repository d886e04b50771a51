"""REBALANCE_STALLED: owners do not change although they should."""

import pytest

from tests.support.rounds import FOUR, concurrent, evidence, rounds
from tests.support.trace import SILENT, Held, Member, Trace, holding


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
