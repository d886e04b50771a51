"""Events of one host: its clock jumps by an hour, or its collector is down for ten minutes. Owners stay."""

from collections import Counter
from functools import cache

import msgspec
import pytest

from rebalance_model.observe.effects import AnyEffect, AssignmentChange, IncidentTransition
from rebalance_model.observe.events import AnyEvent, BrokerStatus, ClockSeen, corrected
from tests.core.engine.test_delay import Row, comparable, of_collector, of_hook, recorded
from tests.support.folding import Fold
from tests.support.simulated import small

MINUTE = 60_000
HOUR = 60 * MINUTE
ALWAYS = 24 * HOUR


@cache
def healthy() -> tuple[Row, ...]:
    """A quarter of an hour in which nothing is wrong, seen by hook and polls."""
    return tuple(recorded(small(minutes=15)))


def fold(rows: list[Row]) -> list[AnyEffect]:
    """The rows until the log's end, which is not the end of the group."""
    log = Fold()
    return [effect for event, stamp in rows for effect in log.push(event, stamp)]


def owners(effects: list[AnyEffect]) -> Counter[str]:
    return comparable((one for one in effects if isinstance(one, AssignmentChange)), "cause")


@cache
def healthy_owners() -> Counter[str]:
    return owners(fold(list(healthy())))


def incidents(effects: list[AnyEffect]) -> Counter[tuple[str, str]]:
    return Counter((one.code, one.transition) for one in effects if isinstance(one, IncidentTransition))


def jumped(event: AnyEvent, ms: int) -> AnyEvent:
    """An event as it is if the clock of the broker's host is wrong: the hook's times, and what the broker says."""
    if isinstance(event, BrokerStatus):
        return msgspec.structs.replace(event, now=event.now + ms) if event.now else event
    if not of_hook(event):
        return event
    event = corrected(event, event.time + ms, -ms)
    return msgspec.structs.replace(event, seen=event.seen + ms) if isinstance(event, ClockSeen) else event


@pytest.mark.parametrize(
    ("ms", "lasts"),
    [
        (HOUR, 4 * MINUTE),
        (-HOUR, ALWAYS),
        *(pytest.param(*both, marks=pytest.mark.prove) for both in ((HOUR, ALWAYS), (-HOUR, 4 * MINUTE))),
    ],
)
def test_a_clock_that_jumps_by_an_hour_is_reported_and_moves_no_queue(ms, lasts):
    begin = healthy()[0][1] + 3 * MINUTE
    effects = fold([
        (jumped(event, ms) if begin <= stamp < begin + lasts else event, stamp) for event, stamp in healthy()
    ])  # fmt: skip

    assert owners(effects) == healthy_owners()
    assert {code for code, _ in incidents(effects)} <= {"CLOCK_SKEW", "TELEMETRY_GAP"}
    assert incidents(effects)["CLOCK_SKEW", "OPENED"] == 1
    assert incidents(effects)["CLOCK_SKEW", "RESOLVED"] == (lasts != ALWAYS)


@pytest.mark.parametrize("hook", [True, False])
def test_a_collector_that_is_down_for_ten_minutes_raises_no_false_alarm(hook):
    """The loss of its events is reported, and over when it is back; nothing else is concluded."""
    begin = healthy()[0][1] + 3 * MINUTE
    rows = [row for row in healthy() if hook or not of_hook(row[0])]
    left = [
        (event, stamp) for event, stamp in rows if not (of_collector(event) and begin <= stamp < begin + 10 * MINUTE)
    ]

    effects = fold(left)

    assert owners(effects) == owners(fold(rows))
    gaps = incidents(effects)
    assert {code for code, _ in gaps} == {"TELEMETRY_GAP"}
    assert gaps["TELEMETRY_GAP", "OPENED"] == gaps["TELEMETRY_GAP", "RESOLVED"]
