"""A clock is wrong and then set: seven hung listeners are found, or the group is not shown as OK."""

from collections import Counter
from functools import cache
from typing import NamedTuple

import pytest

from rebalance_model.observe.effects import AnyEffect, GroupSnapshot, IncidentTransition
from rebalance_model.observe.events import AnyEvent, ClockStep, Tick
from simulation.cluster import START
from tests.core.engine.test_delay import Row, of_collector, of_hook, recorded
from tests.support.folding import Fold
from tests.support.simulated import small

MINUTE, HOUR = 60_000, 3_600_000
EVERY = 130
HANGS = tuple(range(60, 60 + 7 * EVERY, EVERY))
"""When the listener hangs, each time for 90 s; it is due as ORDERED_QUEUE_STUCK after 60 s."""
KEPT = {"polls": of_collector, "hooks": of_hook, "both": lambda _: True}


class Case(NamedTuple):
    """By how much the clock of whose host is wrong, from when on, and for how long; milliseconds and seconds."""

    sources: tuple[str, ...]
    by_ms: int
    at: int
    lasts: int


@cache
def rows_of(case: Case) -> tuple[Row, ...]:
    hangs = [{"at": at, "do": "hang", "who": "c-1", "queue": 0, "lasts": 90} for at in HANGS]
    steps = [
        {"at": case.at, "do": "set-clock", "of": source, "by_ms": case.by_ms, "lasts": case.lasts}
        for source in case.sources
    ]
    return tuple(recorded(small(*hangs, *steps, minutes=17)))


class Shown(NamedTuple):
    """The findings, and in log order the health that was shown last, with the true time."""

    rows: list[AnyEffect]
    health: list[tuple[int, str]]

    @property
    def incidents(self) -> list[IncidentTransition]:
        return [row for row in self.rows if isinstance(row, IncidentTransition)]

    def opened(self, code: str) -> list[IncidentTransition]:
        return [one for one in self.incidents if one.code == code and one.transition == "OPENED"]

    def found_after(self) -> list[float]:
        """Return how long after each hang it was found, seconds; each was found once."""
        opened = self.opened("ORDERED_QUEUE_STUCK")
        return [(row.time - START) / 1_000 - at for row, at in zip(opened, HANGS, strict=True)]

    def health_at(self, second: int) -> str:
        """Return the health that was shown at a true time; UNKNOWN before the first row."""
        return ([health for at, health in self.health if at <= START + 1_000 * second] or ["UNKNOWN"])[-1]


def outcome(case: Case, telemetry: str, *, own_stamps: bool) -> Shown:
    """Fold the telemetry; the log is stamped by another host (Kafka), or by the highest of its events' times."""
    log, rows, health = Fold(), list[AnyEffect](), list[tuple[int, str]]()
    for event, stamp in rows_of(case):
        if KEPT[telemetry](event):
            found = log.push(event, None if own_stamps else stamp)
            rows += found
            health += [(stamp, row.health) for row in found if isinstance(row, GroupSnapshot)]
    return Shown(rows, health)


def whose(telemetry: str) -> tuple[str, ...]:
    return {"polls": ("collector",), "hooks": ("broker-a",), "both": ("collector", "broker-a")}[telemetry]


STEPS = [(sign * by, at, 4 - at // 150) for by in (HOUR, 10 * MINUTE, 20 * HOUR) for at in (0, 300) for sign in (1, -1)]
"""By how much, from when on, and for how many seconds."""
SHORT = {
    (HOUR, 0, 4, True, "polls"),
    (HOUR, 0, 4, False, "hooks"),
    (-HOUR, 0, 4, False, "both"),
    (HOUR, 300, 2, True, "both"),
    (-HOUR, 300, 2, False, "polls"),
    (-HOUR, 300, 2, False, "hooks"),
}
"""The steps of the short form, with whether the log has stamps of its own, and with the telemetry."""


def cases() -> list[object]:
    every = [(*step, stamps, telemetry) for step in STEPS for stamps in (True, False) for telemetry in KEPT]
    return [pytest.param(*one, marks=() if one in SHORT else pytest.mark.prove) for one in every]


@pytest.mark.parametrize(("by_ms", "at", "lasts", "own_stamps", "telemetry"), cases())
def test_a_clock_wrong_for_two_seconds_hides_no_incident(by_ms, at, lasts, own_stamps, telemetry):
    result = outcome(Case(whose(telemetry), by_ms, at, lasts), telemetry, own_stamps=own_stamps)
    due = result.found_after()
    assert all(60 <= seconds < 75 for seconds in due)
    assert {row.code for row in result.incidents} <= {"ORDERED_QUEUE_STUCK", "CLOCK_SKEW", "TELEMETRY_GAP"}
    names = {f"{name}_SET_{way}" for name in ("COLLECTOR", "HOOK") for way in ("BACK", "AHEAD")}
    assert {row.sub_cause for row in result.opened("CLOCK_SKEW")} <= names
    ends = Counter(row.transition for row in result.incidents if row.code != "ORDERED_QUEUE_STUCK")
    assert 0 < ends["OPENED"] == ends["RESOLVED"]


@pytest.mark.parametrize(("by_ms", "at", "own_stamps", "telemetry"), [
    pytest.param(
        sign * by, at, own_stamps, telemetry,
        marks=() if (sign, by, at) == (1, HOUR, 0) and own_stamps == (telemetry != "both") else pytest.mark.prove,
    )
    for by in (HOUR, 10 * MINUTE) for at in (0, 300) for sign in (1, -1) for own_stamps in (True, False)
    for telemetry in KEPT
])  # fmt: skip
def test_a_group_is_never_ok_while_a_wrong_clock_hides_its_incidents(by_ms, at, own_stamps, telemetry):
    """An hour or ten minutes off for six minutes and more; it is set while no listener hangs."""
    found = outcome(Case(whose(telemetry), by_ms, at, 420 if at else 550), telemetry, own_stamps=own_stamps)
    assert [second for second in HANGS if found.health_at(second + 85) == "OK"] == []
    assert found.opened("CLOCK_SKEW") != []


@pytest.mark.parametrize(("source", "at", "by_ms", "own_stamps"), [
    pytest.param(
        of, at, by_ms, own_stamps, marks=() if (of, at, own_stamps) == ("collector", 300, True) else pytest.mark.prove
    )
    for of in ("collector", "broker-a") for at, by_ms in ((300, HOUR), (300, -HOUR), (0, HOUR))
    for own_stamps in (True, False)
])  # fmt: skip
def test_a_source_with_a_wrong_clock_costs_its_neighbours_nothing(source, at, by_ms, own_stamps):
    """Its clock is measured against the other source's, and its times are corrected."""
    result = outcome(Case((source,), by_ms, at, 500), "both", own_stamps=own_stamps)
    due = result.found_after()
    assert all(60 <= seconds < 63 for seconds in due)
    others = {row.code for row in result.incidents} - {"ORDERED_QUEUE_STUCK", "CLOCK_SKEW"}
    assert others <= {"TELEMETRY_GAP"}  # a hook whose clock is set back loses what is on its way, and says so


@pytest.mark.prove
@pytest.mark.parametrize("own_stamps", [True, False])
@pytest.mark.parametrize("source", ["collector", "broker-a"])
def test_with_a_clock_behind_from_the_start_everything_is_found(source, own_stamps):
    """Nothing shows which of them is right: until it is set the times of the rows may be its."""
    found = outcome(Case((source,), -HOUR, 0, 500), "both", own_stamps=own_stamps)
    due = found.found_after()
    assert all(60 <= seconds % 3_600 < 63 for seconds in due[:3])
    assert all(60 <= seconds < 63 for seconds in due[4:])


def fold(events: list[tuple[AnyEvent, int]]) -> list[AnyEffect]:
    log = Fold()
    return [row for event, stamp in events for row in log.push(event, stamp)]


def test_a_collector_started_again_after_its_clock_was_set_back_is_heard():
    """Its new incarnation has a lower number than the last one, which began an hour ahead."""
    away = {"at": 120, "do": "collector-away", "lasts": 5}
    wrong = {"at": 119, "do": "set-clock", "by_ms": HOUR, "lasts": 3}  # it is down when the clock is set back
    hang = {"at": 300, "do": "hang", "who": "c-1", "queue": 0, "lasts": 100}
    again = {"at": 60, "do": "collector-away", "lasts": 59.5}
    rows = [row for row in recorded(small(wrong, again, away, hang, minutes=8)) if of_collector(row[0])]
    starts = list(dict.fromkeys(int(event.source_id.rpartition("@")[2]) for event, _ in rows))
    assert starts[1] > starts[2] > starts[0]
    found = Shown(fold(rows), [])
    assert len(found.opened("ORDERED_QUEUE_STUCK")) == 1
    assert {row.cause for row in found.opened("ORDERED_QUEUE_STUCK")} != {""}


def test_a_copy_of_the_report_that_a_clock_was_set_changes_nothing():
    case = Case(("collector",), HOUR, 300, 2)
    once = [row for row in rows_of(case) if of_collector(row[0])][:4_000]
    twice = [row for one in once for row in ([one, one] if isinstance(one[0], ClockStep) else [one])]
    assert len(twice) == len(once) + 2
    assert fold(twice) == fold(once)


def test_a_lost_report_that_a_clock_was_set_hides_no_incident():
    case = Case(("collector",), HOUR, 0, 4)
    rows = [row for row in rows_of(case) if of_collector(row[0]) and not isinstance(row[0], ClockStep)]
    assert len(Shown(fold(rows), []).opened("ORDERED_QUEUE_STUCK")) == len(HANGS)


def test_the_rows_do_not_depend_on_where_a_log_with_a_set_clock_is_cut():
    rows = [row for row in rows_of(Case(("collector", "broker-a"), HOUR, 300, 2)) if row[1] < START + 420_000]
    log, cut = Fold(), list[AnyEffect]()
    for number, (event, stamp) in enumerate(rows):
        cut += log.push(event, stamp)
        if number % 97 == 0 or isinstance(event, ClockStep) or (isinstance(event, Tick) and number % 13 == 0):
            log.cut()
    assert cut == fold(rows)
