"""The archive in the order of time: what a late source had left out is in its place."""

import msgspec
import pytest

from rebalance_model.observe.events import BrokerStatus, corrected
from streaming.pipeline.rebuild.build import ArchivedPartition
from streaming.pipeline.rebuild.folder import Seed, read_seed, write_seed
from streaming.tables import ReadModel
from tests.pipeline.rebuild.late import POLICY, Stamped, archived, compared, events, fold, log, partitions
from tests.support.tables import make_tables

pytestmark = pytest.mark.xdist_group("late archive")  # one process folds the recording in time for all of them
LATE = [("hook", 90_000), ("hook", 600_000), ("poll", 90_000), ("poll", 600_000)]
"""Which source is late, and by how many milliseconds."""


def late(source: str, delay: int) -> list[object]:
    """Return all of them, in the short form one."""
    return [pytest.param(*one, marks=() if one == (source, delay) else pytest.mark.prove) for one in LATE]


def rebuilt(tables, *, until):
    """Folded from the beginning up to ``until`` rows of each partition, written, read, and on to the end."""
    effects = []
    with ReadModel(tables) as model:
        for number, offset in enumerate(until):
            first = ArchivedPartition(number, POLICY)
            for rows in first.fold(model, offset):
                effects += rows
            write_seed(tables / "seeds", number, Seed(offset, first.save(), first.groups))
            then = ArchivedPartition(number, POLICY, read_seed(tables / "seeds", number))
            for rows in then.go_on(model, 2**40):
                effects += rows
    return compared(effects)


@pytest.fixture(scope="module")
def expected():
    return compared(fold(log(lambda _: False, 0)))


@pytest.mark.parametrize(("source", "delay"), late("hook", 90_000))
def test_a_late_source_makes_no_difference_after_a_rebuild(tmp_path, expected, source, delay):
    rows = log(lambda event: event.source == source, delay)
    assert compared(fold(rows)) != expected, "a delay that nobody feels proves nothing"
    archived(make_tables(tmp_path), rows)
    assert rebuilt(tmp_path, until=[len(p) for p in partitions(rows)]) == expected


@pytest.mark.parametrize(("source", "delay"), late("poll", 600_000))
def test_a_source_that_is_behind_at_the_end_catches_up_afterwards(tmp_path, expected, source, delay):
    """Events after its last tick wait in the buffer, which is part of the state."""
    cut = events()[0].time + 11 * 60_000 + 300
    rows = log(lambda event: event.source == source, delay, until=cut)
    archived(make_tables(tmp_path), rows)
    before = [sum(row.stamp < cut for row in partition) for partition in partitions(rows)]
    assert rebuilt(tmp_path, until=before) == expected


@pytest.mark.parametrize("off", [3_000_000, pytest.param(-5_000, marks=pytest.mark.prove)])
def test_a_wrong_clock_and_a_delay_at_once_make_no_difference(tmp_path, off):
    """The collector's answers say by how much the broker's clock is off: the first one says it, in both runs."""
    rows = log(lambda event: event.source == "hook", 90_000)
    wrong = [Stamped(_off(row.event, off), row.stamp) for row in rows]
    in_time = sorted(events(), key=lambda event: event.time)
    undelayed = [Stamped(_off(event, off), event.time) for event in in_time]
    archived(make_tables(tmp_path), wrong)
    assert rebuilt(tmp_path, until=[len(p) for p in partitions(wrong)]) == compared(fold(undelayed))


def _off(event, off):
    """As a source says it whose clock is off."""
    if event.source == "hook":
        return corrected(event, event.time + off, -off)
    if isinstance(event, BrokerStatus):
        now = (event.time + off) // 1_000 * 1_000
        return msgspec.structs.replace(event, asked=event.time - 20, answered=event.time, now=now)
    return event
