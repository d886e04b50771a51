"""REVIVE_BEHIND: a broker is behind with giving back popped messages, and falls further behind."""

import json
from dataclasses import replace

import pytest

from rebalance_model.observe.effects import GroupSnapshot
from rebalance_model.observe.events import BrokerStatus, RpcError
from tests.support.incident_rows import distinct_transitions, evidence, rows
from tests.support.trace import START, Trace, holding

MINE = "REVIVE_BEHIND"


def reported(backlogs, every: int = 10, late: int | None = None) -> Trace:
    """The collector reports these backlogs of broker-a, one in each round; None: the broker does not say."""
    trace = Trace()
    for number, records in enumerate(backlogs):
        status(trace, number * every, records, late=late)
    return trace


def status(trace: Trace, at: int, records: int | None, error: int | None = None, late: int | None = None) -> None:
    trace.tick(at)
    now = START + at * 1_000
    answer = {"boot_time": 1} if error is None else {"error": RpcError(code=error)}
    fields = {"revive_backlog": records, "revive_late": late, "asked": now, "broker": "broker-a"}
    trace._observe(BrokerStatus(**fields, **answer, **trace._of_collector(now)))


def test_a_backlog_that_grows_for_a_minute():
    trace = reported([5, *range(80, 800, 60)])
    assert distinct_transitions(trace, MINE) == [(60, "OPENED", MINE)]
    opened = rows(trace, MINE)[0]
    assert (opened.severity, opened.subject, opened.group) == ("warning", "broker-a", "")
    assert evidence(trace, MINE)[0] == {
        "backlog": 380, "limit": 100, "grown_by": 375, "growing_ms": 60_000, "overdue_ms": None,
    }  # fmt: skip


def test_many_records_that_are_checked_in_time_are_a_near_miss():
    """Consumers refuse many messages: more records come than usual, and the last one that was checked is recent."""
    backlogs = [5, *range(80, 800, 60)]
    assert reported(backlogs, late=4_000).incidents(MINE) == []
    assert distinct_transitions(reported(backlogs, late=61_000), MINE) == [(60, "OPENED", MINE)]


def test_it_is_over_when_the_backlog_falls():
    trace = reported([5, *range(80, 800, 60), 700])
    assert distinct_transitions(trace, MINE)[-1] == (130, "RESOLVED", MINE)


@pytest.mark.parametrize(
    "backlogs",
    [
        [1, 7, 3, 5, 2] * 10,  # as usual
        [5, 20, 40, 60, 80, 90, 95, 98, 99, 100, 100],  # not above the limit
        [5, 150, 300, 450, 600, 750, 700, 800, 900, 1_000, 1_100, 1_200],  # it fell after 50 s
        [500] * 30,  # a burst that is worked off, or an offset of long ago
        [None] * 30,
    ],
)
def test_what_is_a_near_miss(backlogs):
    assert reported(backlogs).incidents(MINE) == []


def test_a_backlog_that_stands_still_after_it_has_grown_is_still_one():
    trace = reported([5, *range(80, 800, 60), *[740] * 20])
    assert distinct_transitions(trace, MINE) == [(60, "OPENED", MINE)]


def test_a_broker_that_says_nothing_more_decides_nothing():
    trace = reported([5, *range(80, 500, 60)])
    for at in range(80, 200, 10):
        status(trace, at, None)
    assert distinct_transitions(trace, MINE) == [(60, "OPENED", MINE)]
    late = reported([5, 200, 400], every=100)  # the answers are too far apart to know that it never fell
    assert late.incidents(MINE) == []


def test_of_a_broker_that_does_not_answer_it_is_a_consequence():
    trace = reported([5, *range(80, 500, 60)])
    for at in range(80, 120, 10):
        status(trace, at, None, error=-1)
    [down] = rows(trace, "BROKER_UNREACHABLE")
    assert rows(trace, MINE)[-1].parent in (None, down.incident_id)
    assert [one.transition for one in rows(trace, MINE)][-1] != "RESOLVED"


def health(trace: Trace) -> tuple[str, str]:
    last = [row for row in trace.effects if isinstance(row, GroupSnapshot)][-1]
    return last.health, last.health_reason


def revive_behind(*, pops: bool) -> Trace:
    """A group whose member pops, or not, at a broker that is behind."""
    trace, member = Trace(), holding(*(() if pops else (0, 1, 2, 3)))
    member = replace(member, pops=("Orders",) if pops else (), orderly=False)
    for number in range(14):
        trace.poll(10 * number, {"a": member}, dict.fromkeys(range(4), (100 + number, 100 + number)))
        status(trace, 10 * number, 50 * (number + 1))
    return trace


@pytest.mark.parametrize(("pops", "expected"), [(False, ("OK", "CLOCK_SKEW BEHIND")), (True, ("WARN", MINE))])
def test_it_concerns_only_groups_that_pop(pops, expected):
    """Messages of a classic group are given back by nobody."""
    trace = revive_behind(pops=pops)
    assert json.loads([row for row in trace.effects if isinstance(row, GroupSnapshot)][-1].coverage)["sharing"] == (
        "POPPED" if pops else "DIVIDED"
    )
    assert health(trace) == expected
