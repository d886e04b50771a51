"""A delay in the log changes nothing up to 15 s; a wrong clock does not matter."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import msgspec
import pytest

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.effects import AnyEffect, IncidentTransition, QueueProgress
from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.events.decoding import decode
from simulation import story
from simulation.__main__ import read_scenario
from simulation.cluster import SimulatedCluster
from simulation.scenario import Scenario
from streaming.log.recording import replayed_rows
from tests.support.folding import Fold
from tests.support.simulated import small

CAPTURE = Path(__file__).parents[3] / "streaming/lab/demo/capture.jsonl.gz"
ONE_DEMO = pytest.mark.xdist_group("the demo in time")  # one process reads and folds the recording for all of them
HOOK_LATE, COLLECTOR_LATE = ("broker-restart", "hook-full", "partition"), ("collector-away", "kill", "thaw")
"""Stories, by the source that is late in the short form; the other one is late in the long form."""
NOT_COMPARED = ("known_at", "seq")
Row = tuple[AnyEvent, int]
"""An event, and the log's stamp of it."""


def stamped(events: Iterable[AnyEvent]) -> list[Row]:
    """A recording as its log had it: nothing came before what was recorded before it."""
    rows, stamp = [], 0
    for event in events:
        stamp = max(stamp, event.time)
        rows.append((event, stamp))
    return rows


def recorded(scenario: Scenario, seed: int = 1) -> list[Row]:
    """A story, each event at the true time at which it was sent."""
    rows: list[Row] = []
    cluster = SimulatedCluster(
        scenario, seed, lambda event: rows.append((event, cluster.world.true_ms)), hook=True, poll=True
    )
    story.schedule(cluster)
    cluster.run_until(scenario.minutes * 60)
    return rows


@cache
def the_demo() -> list[Row]:
    lines = replayed_rows(CAPTURE, 1)
    return stamped(decode(row.value, key=None, stamp=INT64_MAX, keyed=False) for line in lines for row in line)


@cache
def scenario_rows(name: str) -> list[Row]:
    return recorded(read_scenario(name))


def delayed(rows: list[Row], is_late: Callable[[AnyEvent], bool], ms: int) -> list[Row]:
    """Return a log with one source that comes later."""
    return sorted(((event, stamp + ms * is_late(event)) for event, stamp in rows), key=lambda row: row[1])


@cache
def in_time(name: str) -> Counter[str]:
    """The rows of the demo, or of a story, whose sources are in time."""
    return comparable(fold(scenario_rows(name) if name else the_demo()))


def fold(rows: list[Row]) -> list[AnyEffect]:
    """All rows but the quantities, which are written as they come."""
    log = Fold()
    found = [row for event, stamp in rows for row in log.push(event, stamp)] + log.shard.finish()
    return [row for row in found if not isinstance(row, QueueProgress)]


def comparable(effects: Iterable[AnyEffect], *but: str) -> Counter[str]:
    """Rows without what may differ."""
    rows = ({"row": type(one).__name__} | msgspec.to_builtins(one) for one in effects)
    return Counter(json.dumps({k: v for k, v in row.items() if k not in (*NOT_COMPARED, *but)}) for row in rows)


def of_hook(event: AnyEvent) -> bool:
    return event.source_id.startswith("hook")


def of_collector(event: AnyEvent) -> bool:
    return event.source_id.startswith("poll")


@ONE_DEMO
@pytest.mark.parametrize("ms", [15_000, *(pytest.param(ms, marks=pytest.mark.prove) for ms in (1_000, 10_000))])
@pytest.mark.parametrize("is_late", [of_hook, pytest.param(of_collector, marks=pytest.mark.prove)])
def test_a_source_up_to_15_s_late_changes_no_row_of_the_demo(is_late, ms):
    assert comparable(fold(delayed(the_demo(), is_late, ms))) == in_time("")


@pytest.mark.parametrize(
    ("name", "is_late"),
    [
        pytest.param(
            name,
            is_late,
            marks=[
                pytest.mark.xdist_group(f"late {name}"),  # one process simulates it for both sources
                *([] if name in in_short else [pytest.mark.combination, pytest.mark.prove]),
            ],
        )
        for name in (*HOOK_LATE, *COLLECTOR_LATE)
        for is_late, in_short in ((of_hook, HOOK_LATE), (of_collector, COLLECTOR_LATE))
    ],
)
def test_a_source_15_s_late_changes_no_row_of_a_scenario(name, is_late):
    assert comparable(fold(delayed(scenario_rows(name), is_late, 15_000))) == in_time(name)


@ONE_DEMO
def test_a_start_with_a_backlog_of_80_s_changes_no_row():
    """The collector begins when the hook has spooled for so long; the spool comes at 20 times the speed.

    Minutes after it is read nothing of it is left to see.
    """
    first, backlog = the_demo()[0][1], 80_000
    begin, end = first + backlog, first + 8 * backlog
    rows = [(event, stamp) for event, stamp in the_demo() if stamp < end and (of_hook(event) or event.time >= begin)]
    caught_up = [
        (event, max(stamp, begin + (stamp - first) // 20) if of_hook(event) else stamp) for event, stamp in rows
    ]
    assert any(stamp - event.time > 75_000 for event, stamp in caught_up)
    found = fold(sorted(caught_up, key=lambda row: row[1]))
    assert comparable(found) == comparable(fold(rows))
    assert not any(isinstance(one, IncidentTransition) and one.code == "TELEMETRY_GAP" for one in found[:200])


@ONE_DEMO
def test_rows_of_two_sources_that_are_swapped_change_no_row():
    """Within each source the order stays: that is what Kafka keeps."""
    rows = [(event, stamp + 7_000 * (of_hook(event) and stamp // 5_000 % 2)) for event, stamp in the_demo()]
    highest = 0
    for place, (event, stamp) in enumerate(rows):
        highest = max(highest, stamp) if of_hook(event) else highest
        rows[place] = (event, highest if of_hook(event) else stamp)
    assert comparable(fold(sorted(rows, key=lambda row: row[1]))) == in_time("")


@ONE_DEMO
def test_no_row_is_dated_before_its_evidence_nor_known_before():
    events = {f"{e.source_id}|{getattr(e, 'group', '') and f'{e.cluster}/{e.group}'}|{e.seq}": e for e, _ in the_demo()}
    for row in fold(the_demo()):
        assert row.known_at >= row.time or row.cause == ""
        assert not row.cause or events[row.cause].time == row.time


@cache
def with_right_clock() -> Counter[str]:
    return comparable(fold(recorded(broken(0))), *OWN_CLOCK)


def broken(clock_offset_ms: int) -> Scenario:
    """A broker that stops and comes back, by its own clock."""
    step = {"at": 61, "do": "stop-broker", "broker": "broker-a", "lasts": 30}
    return small(step, minutes=4, brokers=[{"name": "broker-a", "clock_offset_ms": clock_offset_ms}])


OWN_CLOCK = ("cause", "evidence", "health_reason")
"""A hook's incarnation is named by its own clock; the wrong clock is reported."""


@pytest.mark.xdist_group("wrong clock")  # one process simulates the right one for all of them
@pytest.mark.parametrize("delay", [10_000, pytest.param(0, marks=pytest.mark.prove)])
@pytest.mark.parametrize(
    "off", [5_000, -3_000_000, *(pytest.param(ms, marks=pytest.mark.prove) for ms in (-5_000, 3_000_000))]
)
def test_a_wrong_clock_of_a_broker_is_corrected_to_the_same_rows(off, delay):
    effects = fold(delayed(recorded(broken(off)), of_hook, delay))
    skewed = [one for one in effects if isinstance(one, IncidentTransition) and one.code == "CLOCK_SKEW"]
    assert len(skewed) == (abs(off) > 5_000)
    wrong = comparable((one for one in effects if one not in skewed), *OWN_CLOCK)
    differences = (with_right_clock() - wrong) + (wrong - with_right_clock())
    assert all('"row": "GroupSnapshot"' in row for row in differences), "only the group's health shows the clock"


@pytest.mark.xdist_group("late kill")
def test_a_constant_delay_is_no_wrong_clock():
    found = fold(delayed(scenario_rows("kill"), of_hook, 10_000))
    assert [one for one in found if isinstance(one, IncidentTransition) and one.code == "CLOCK_SKEW"] == []
