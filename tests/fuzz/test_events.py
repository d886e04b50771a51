"""Mutated events in the log: each is kept or rejected with a reason, and those that are valid harm nothing."""

import gzip
from copy import deepcopy
from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_model.observe.engine.salvage import Saved
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent, instance_of
from rebalance_model.observe.events.decoding import RejectedError, decode
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from schemas.arrow import table_of_json
from streaming.lab.demo import CAPTURE
from streaming.log.rows import rows_of_line
from streaming.pipeline.archive_rows import LogRow, Transport, archived
from streaming.pipeline.effects import by_table
from tests.fuzz.forms import fuzzed
from tests.fuzz.mutations import mutants
from tests.support.fitting import check_readable

LINES = gzip.decompress(CAPTURE.read_bytes()).splitlines()
EXAMPLES = Path(__file__).parents[2] / "schemas/examples/accepted"
KINDS = [line for file in sorted(EXAMPLES.glob("*.jsonl")) for line in file.read_bytes().splitlines()]
SAMPLES = [*KINDS, *LINES[2_000:6_000:20]]
POLICY = Policy()
STEP = 40


class Point:
    """A state of the demo's shard, from which a shard continues again and again."""

    def __init__(self, at: int, saved: Saved, groups: GroupsInMemory) -> None:
        self.following = LINES[at : at + STEP]
        self.stamp = decode(LINES[at], key=None, stamp=2**62, keyed=False).time
        self._saved, self._groups = saved, dict(groups)

    def shard(self) -> Shard:
        self.groups = GroupsInMemory(self._groups)
        return Shard(deepcopy(self._saved), self.groups, POLICY)  # it changes what it continues from


def points() -> list[Point]:
    """Fold the first lines of the capture; return the states between them."""
    groups, saved, made = GroupsInMemory(), None, []
    for begin, end in pairwise(range(0, 6_001, 500)):
        shard = Shard(saved, groups, POLICY)
        for line in LINES[begin:end]:
            event = decode(line, key=None, stamp=2**62, keyed=False)
            shard.push(event, event.time, len(line))
        saved = shard.flush()
        made.append(Point(end, saved, groups))
    return made


@pytest.fixture(scope="module")
def known_points():
    return points()


def read(line: bytes, stamp: int) -> AnyEvent | None:
    try:
        return decode(line, key=None, stamp=stamp, keyed=False)
    except RejectedError:
        return None


@given(lines=st.lists(mutants(SAMPLES), min_size=1, max_size=8))
@fuzzed(short=150, long=10_000)
def test_each_mutated_line_is_accepted_or_rejected(lines, tally, form):
    """By the shipper, the operator and the archive alike."""
    stamp = 1_795_255_700_000
    rows = [LogRow(0, number, None, line, stamp) for number, line in enumerate(lines)]
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), TYPES, strict=True)]
    with tally.in_time():
        (batch,) = archived([pa.record_batch(columns, names=LogRow._fields)], Transport(None))
        decoded_lines = [read(line, stamp) for line in lines]
        assert all(rows_of_line(line, 3) for line in lines)
    accepted, rejected = (batch.column(name).to_pylist() for name in ("accepted", "rejected"))
    assert [row is not None for row in accepted] == [event is not None for event in decoded_lines]
    assert [row is None for row in rejected] == [event is not None for event in decoded_lines]
    assert all(row["reason"] and row["detail"] for row in rejected if row)
    refused = [line for line, event in zip(lines, decoded_lines, strict=True) if event is None]
    assert [row["value"] for row in rejected if row] == refused
    tally.add("accepted", sum(row is not None for row in accepted))
    tally.add("rejected", sum(row is not None for row in rejected))


TYPES = (pa.int32(), pa.int64(), pa.binary(), pa.binary(), pa.int64())


@given(data=st.data(), begin=st.integers(0, 11), places=st.lists(st.integers(0, STEP - 1), min_size=1, max_size=6))
@fuzzed(short=60, long=6_000)
def test_events_that_are_valid_by_their_form_alone_do_not_end_the_job(known_points, data, begin, places, tally, form):
    """Mutants among the capture's next events: the groups' states stay sound, and all rows fit into their tables."""
    point = known_points[begin]
    lines = list(point.following)
    for place in places:
        lines[place] = data.draw(mutants(point.following, most=2))
    shard, rows = point.shard(), []
    with tally.in_time():
        for line in lines:
            event = read(line, point.stamp)
            if event is not None:
                rows += shard.push(event, point.stamp, len(line))
        saved = shard.flush()
        check_readable(point.groups)
        shard = Shard(saved, point.groups, POLICY)
        rows += shard.finish()
        shard.flush()
    check_readable(point.groups)
    tally.add("events among others", len(places))
    for table, count, lines in by_table(rows):
        assert table_of_json(table, lines).num_rows == count


@pytest.mark.parametrize("digits", [19, 21, 500])
def test_the_start_of_an_incarnation_fits_into_the_state(known_points, digits):
    """Found by mutation: the job ended when it stored such a number, and at every start again."""
    start = "9" * digits
    tick = (
        f'{{"type":"TICK","time":{known_points[0].stamp},"cluster":"lab","source":"hook","source_id":"hook-a@{start}","seq":1}}'
    ).encode()
    event = read(tick, known_points[0].stamp)
    assert event is not None
    shard = known_points[0].shard()
    shard.push(event, known_points[0].stamp, len(tick))
    shard.finish()
    shard.flush()
    assert instance_of(f"hook-a@{start}") == (f"hook-a@{start}", 0)


@pytest.mark.parametrize("first", [0, 191])
def test_the_clock_of_a_host_that_stands_at_1970_does_not_hold_up_a_job(first):
    """Found by coverage: as the log's first event it led to a snapshot for each minute of 56 years, in every start."""
    stamp = 1_795_255_700_000
    commit = next(line for line in SAMPLES if b'"UPDATE_CONSUMER_OFFSET"' in line)
    shard, rows = Shard(None, GroupsInMemory(), POLICY), []
    for seq, time in enumerate((first, stamp, stamp + 5_000), 1):
        event = msgspec.structs.replace(read(commit, stamp + 2**40), time=time, seq=seq)
        rows += shard.push(event, stamp + seq)
    rows += shard.finish()
    assert 0 < len(rows) < 100
