"""MIXED_CONSUME_MODE: some members consume in order, and others concurrently."""

from dataclasses import replace

from tests.support.incident_rows import rows
from tests.support.trace import SILENT, Trace, holding

MINE = "MIXED_CONSUME_MODE"
OFFSETS = dict.fromkeys(range(4), (100, 100))


def polled(second, until: int, trace: Trace | None = None, begin: int = 0) -> Trace:
    """The first member consumes in order; the second one is as given."""
    trace = trace or Trace()
    for at in range(begin, until, 10):
        trace.poll(at, {"a": holding(0, 1), "b": second}, OFFSETS)
    return trace


def test_members_with_two_kinds_of_listener():
    trace = polled(replace(holding(2, 3), orderly=False), 50)
    assert [one[1:] for one in trace.incidents(MINE)] == [("OPENED", MINE)]
    assert rows(trace, MINE)[0].severity == "critical"


def test_it_ends_when_the_other_one_leaves():
    trace = polled(replace(holding(2, 3), orderly=False), 50)
    for at in range(50, 90, 10):
        trace.poll(at, {"a": holding(0, 1, 2, 3)}, OFFSETS)
    assert trace.incidents(MINE)[-1][1:] == ("RESOLVED", MINE)


def test_one_kind_is_a_near_miss():
    assert polled(holding(2, 3), 90).incidents(MINE) == []


def test_a_member_that_never_answered_is_of_no_kind():
    assert polled(SILENT, 90).incidents(MINE) == []
