"""QUEUE_STALLED by polls: a concurrent queue whose commit does not advance."""

import msgspec
import pytest

from rebalance_model.observe.events import RpcError
from tests.support.rounds import FOUR, MINE, concurrent, evidence, rounds
from tests.support.trace import SILENT, START, Member, Trace


def stalled(trace: Trace, member: Member, start: float, stop: float) -> Trace:
    at = start
    while at < stop:
        trace.poll(at, {"a": member}, {0: (200 + round(at), 100)})
        at += 10
    return trace


def test_a_concurrent_queue_without_progress_is_reported_after_90_s():
    """Lag and a standing commit from 0 on. One listener thread hangs; the others go on, so the client is at work."""
    trace = stalled(Trace(route=1), concurrent(0, cached=7), 0, 130)
    trace.poll(130, {"a": concurrent(0)}, {0: (400, 300)})
    assert trace.incidents(*MINE) == [
        (100, "OPENED", "QUEUE_STALLED MESSAGE_HELD"),
        (130, "RESOLVED", "QUEUE_STALLED MESSAGE_HELD"),
    ]
    found = evidence(trace, "QUEUE_STALLED")
    assert (found["stalled_ms"], found["limit_ms"], found["cached_count"]) == (100_000, 90_000, 7)


def test_a_commit_that_advances_within_90_s_is_a_near_miss():
    trace = stalled(Trace(route=1), concurrent(0, cached=7), 0, 100)
    trace.poll(100, {"a": concurrent(0)}, {0: (400, 101)})
    assert trace.incidents(*MINE) == []


def test_a_wait_begins_anew_when_the_newest_offset_falls():
    """The topic was created again: what waited in the former one is gone."""
    trace = stalled(Trace(route=1), concurrent(0, cached=7), 0, 80)
    for at in range(80, 150, 10):
        trace.poll(at, {"a": concurrent(0, cached=7)}, {0: (at, 10)})
    assert trace.incidents(*MINE) == []


@pytest.mark.parametrize("ages", [{}, {"consume_age": 30}, {"consume_age": 120, "pull_age": 60}])
def test_a_client_with_nothing_cached_waits_for_no_listener(ages):
    trace = stalled(Trace(route=1), concurrent(0, cached=0, **ages), 0, 130)
    assert trace.incidents("QUEUE_STALLED") == []


def test_a_client_that_pulls_and_consumes_nothing_is_stalled():
    """It may not report what waits in it. A queue without lag stays quiet."""
    silent_about_it = concurrent(0, cached=0, consume_age=60, pull_age=20)
    trace = stalled(Trace(route=1), silent_about_it, 0, 130)
    trace.poll(130, {"a": concurrent(0)}, {0: (400, 300)})
    assert trace.incidents(*MINE) == [
        (100, "OPENED", "QUEUE_STALLED NOTHING_RECEIVED"),
        (130, "RESOLVED", "QUEUE_STALLED NOTHING_RECEIVED"),
    ]
    idle = Trace(route=1)
    for at in range(0, 300, 10):
        idle.poll(at, {"a": silent_about_it}, {0: (100, 100)})
    assert idle.incidents(*MINE) == []


def test_a_concurrent_queue_with_no_owner_or_a_silent_one_is_stalled():
    trace = stalled(Trace(route=1), concurrent(), 0, 110)
    assert trace.incidents(*MINE) == [(100, "OPENED", "QUEUE_STALLED UNASSIGNED")]
    trace = stalled(Trace(route=1), concurrent(0, cached=7), 0, 20)
    stalled(trace, SILENT, 20, 110)
    assert trace.incidents("QUEUE_STALLED") == [(100, "OPENED", "QUEUE_STALLED OWNER_UNRESPONSIVE")]


def test_an_error_of_the_broker_shows_nothing_of_its_clients():
    trace = rounds(Trace(), 0, 20, FOUR)
    for at in range(20, 300, 10):
        trace.poll(at, None)
        trace._fold(msgspec.structs.replace(trace._answer("a", SILENT, START + at * 1000), error=RpcError(code=-1)))
    assert trace.incidents(*MINE) == []
