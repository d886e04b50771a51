"""QUEUE_STALLED by polls: a concurrent queue whose commit does not advance."""

import msgspec
import pytest

from rebalance_model.observe.events import ConsumeStats, OffsetInfo, RpcError
from tests.support.hook_trace import HookTrace
from tests.support.rounds import FOUR, MINE, concurrent, evidence, rounds
from tests.support.trace import SILENT, START, TOPIC, Held, Member, Trace, mq


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


def test_without_an_owner_it_is_unassigned_only_if_queues_are_reported():
    """The broker's list does not say in which way the group consumes."""
    trace = stalled(Trace(route=1, consume_type=""), concurrent(), 0, 110)
    assert trace.incidents("QUEUE_STALLED") == [(100, "OPENED", "QUEUE_STALLED UNDETERMINED")]


def test_a_client_whose_pulls_reach_the_broker_holds_none_back():
    """It reports no message, and has consumed none for a minute; the broker's hook sees its pulls."""
    trace = HookTrace(route=1).boots(0).heart_beat(0, "a").asks(0, "a", 0)
    for at in range(10, 130, 10):
        trace.heart_beat(at - 1, "a").pulls(at - 0.5, "a", 0, offset=100)
        trace.poll(at, {"a": concurrent(0, cached=0, consume_age=60, pull_age=1)}, {0: (200 + at, 100)})
    assert [what for _, _, what in trace.incidents("QUEUE_STALLED")] == ["QUEUE_STALLED UNDETERMINED"]


def test_what_was_opened_more_than_half_an_hour_ago_is_forgotten():
    trace = Trace(route=2)
    for begin, commits in ((0, (100, 150)), (2_000, (150, 100))):
        for at in range(begin, begin + 150, 10):
            rows = {q: (150, 150 if at >= begin + 130 else commit) for q, commit in enumerate(commits)}
            trace.poll(at, {"a": concurrent(0, 1, cached=7)}, rows)
    assert [what for _, what, _ in trace.incidents("QUEUE_STALLED")] == ["OPENED", "RESOLVED"] * 2
    assert [key.subject for key in trace.state.opened] == ["Orders@broker-a:1"]


def test_a_retry_queue_that_is_dropped_and_taken_again_is_not_consumed():
    retry = "%RETRY%g"
    trace = Trace(route=1, topics=(TOPIC, retry))
    for at in range(0, 180, 10):
        holds = (Held(0), *([Held(0, topic=retry)] if at % 50 else []))
        trace.poll(at, {"a": Member(holds, orderly=False)}, {0: (100, 100)})
        waits = OffsetInfo(mq=mq(0, retry), broker_offset=5, consumer_offset=2)
        trace._fold(ConsumeStats(queues=(waits,), **trace._poll(trace.now)))
    assert trace.incidents("QUEUE_STALLED")[-1][2] == "QUEUE_STALLED RETAKEN"
