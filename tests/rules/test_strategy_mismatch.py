"""STRATEGY_MISMATCH: members divide the queues by different strategies."""

from dataclasses import replace

import pytest

from tests.support.incident_rows import evidence, rows
from tests.support.trace import SILENT, Trace, holding

MINE = "STRATEGY_MISMATCH"
CIRCLE = "AllocateMessageQueueAveragelyByCircle"
OFFSETS = dict.fromkeys(range(4), (100, 100))


def polled(second, until: int, trace: Trace | None = None, begin: int = 0) -> Trace:
    """The first member divides by AVG; the second one is as given."""
    trace = trace or Trace()
    for at in range(begin, until, 10):
        trace.poll(at, {"a": holding(0, 1), "b": second}, OFFSETS)
    return trace


def test_members_with_two_strategies():
    trace = polled(replace(holding(1, 3), strategy=CIRCLE), 50)
    assert [one[1:] for one in trace.incidents(MINE)] == [("OPENED", MINE)]
    assert rows(trace, MINE)[0].severity == "critical"
    assert CIRCLE in str(evidence(trace, MINE)[0])


def test_it_ends_when_all_have_the_same_one():
    trace = polled(replace(holding(1, 3), strategy=CIRCLE), 50)
    polled(holding(2, 3), 90, trace, begin=50)
    assert trace.incidents(MINE)[-1][1:] == ("RESOLVED", MINE)


def test_one_strategy_is_a_near_miss():
    assert polled(holding(2, 3), 90).incidents(MINE) == []


@pytest.mark.parametrize("second", [SILENT, replace(holding(2, 3), strategy="")])
def test_a_member_that_does_not_say_has_no_other_strategy(second):
    assert polled(second, 90).incidents(MINE) == []
