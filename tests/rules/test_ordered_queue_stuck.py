"""ORDERED_QUEUE_STUCK by polls: an ordered queue has lag, and its commit does not advance for a minute."""

from dataclasses import replace

import pytest

from tests.support.incident_rows import evidence, rows
from tests.support.trace import SILENT, Held, Member, Trace, holding

MINE = "ORDERED_QUEUE_STUCK"
STANDS, MOVES = (150, 100), (100, 100)


def stuck(member: Member, until: int, queue=STANDS, trace: Trace | None = None, begin: int = 0) -> Trace:
    """Queue 1 of the only member a has lag, and its commit stands; the others are empty."""
    trace = trace or Trace()
    for at in range(begin, until, 10):
        trace.poll(at, {"a": member}, {0: MOVES, 1: queue, 2: MOVES, 3: MOVES})
    return trace


def owning(**fields) -> Member:
    return Member((Held(0), Held(1, **fields), Held(2), Held(3)))


SUB_CAUSES = {
    "LISTENER_HUNG": owning(in_listener=1, consume_age=40),
    "SUSPEND_LOOP": owning(cached=5, consume_age=0),
    "NOT_LOCKED": owning(locked=False, cached=5),
    "LOCK_EXPIRED": owning(lock_age=40, cached=5),
    "NOT_PULLING": owning(pull_age=50, consume_age=50),
}


@pytest.mark.parametrize("sub_cause", SUB_CAUSES)
def test_the_owners_answer_says_why(sub_cause):
    trace = stuck(SUB_CAUSES[sub_cause], 90)
    [(at, transition, what), *_] = trace.incidents(MINE)
    assert (transition, what) == ("OPENED", f"{MINE} {sub_cause}")
    assert 60 < at <= 80
    row = rows(trace, MINE)[0]
    assert (row.severity, row.client_id, row.subject) == ("critical", "a", "Orders@broker-a:1")
    found = evidence(trace, MINE)[0]
    assert (found["lag"], found["commit_offset"], found["limit_ms"]) == (50, 100, 60_000)
    assert found["stalled_ms"] > 60_000


def test_it_ends_with_the_next_commit():
    trace = stuck(SUB_CAUSES["LISTENER_HUNG"], 90)
    stuck(holding(0, 1, 2, 3), 100, (150, 101), trace, begin=90)
    assert trace.incidents(MINE)[-1] == (90, "RESOLVED", f"{MINE} LISTENER_HUNG")


def test_a_minute_is_a_near_miss():
    trace = stuck(SUB_CAUSES["LISTENER_HUNG"], 60)
    stuck(holding(0, 1, 2, 3), 120, (150, 101), trace, begin=60)
    assert trace.incidents(MINE) == []


def test_a_queue_without_lag_is_not_stuck():
    assert stuck(SUB_CAUSES["LISTENER_HUNG"], 120, MOVES).incidents(MINE) == []


def test_a_commit_that_advances_slowly_is_not_stuck():
    trace = Trace()
    for at in range(0, 200, 10):
        trace.poll(at, {"a": owning(in_listener=1, consume_age=20)}, {1: (500, 100 + at // 50)})
    assert trace.incidents(MINE) == []


def test_a_concurrent_queue_is_reported_as_stalled_instead():
    trace = stuck(replace(SUB_CAUSES["LISTENER_HUNG"], orderly=False), 130)
    assert trace.incidents(MINE) == []
    assert [one[1] for one in trace.incidents("QUEUE_STALLED")] == ["OPENED"]


def test_time_without_answers_does_not_count():
    """The broker answers until 50 and from 110 on: 50 s are observed, and then 10."""
    trace = stuck(SUB_CAUSES["LISTENER_HUNG"], 60)
    for at in range(60, 110, 10):
        trace.poll(at, {"a": SUB_CAUSES["LISTENER_HUNG"]})
    stuck(SUB_CAUSES["LISTENER_HUNG"], 120, trace=trace, begin=110)
    assert trace.incidents(MINE) == []


def test_of_a_frozen_owner_nothing_but_that_is_known():
    trace = stuck(holding(0, 1, 2, 3), 20)
    for at in range(20, 120, 10):
        trace.poll(at, {"a": SILENT}, {0: MOVES, 1: STANDS, 2: MOVES, 3: MOVES})
    assert f"{MINE} OWNER_UNRESPONSIVE" in [one[2] for one in trace.incidents(MINE)]
    stuck_row = rows(trace, MINE)[0]
    assert stuck_row.parent is not None  # its client is the cause
