"""Ninety minutes at 1,000 events a second with a fault every few minutes: nothing lost or doubled, nothing grows."""

import re

import msgspec
import pytest
from deltalake import DeltaTable

from rebalance_model.observe.policy import Policy
from streaming.log.rows import encode, rows_of
from streaming.pipeline.archive_rows import LogRow
from streaming.pipeline.operator import ShardRow
from tests.instruments.soak import verdict
from tests.instruments.soak.measures import Measure, flatness, measures_of, trend
from tests.instruments.soak.picture import picture
from tests.instruments.soak.records import Run, Sample, Soaked, Used
from tests.instruments.soak.rows import Archive, differences
from tests.instruments.soak.run import play
from tests.support.plain import effects
from tests.support.tables import append, append_rows, archive, make_tables, read_rows
from tests.support.telemetry import telemetry

MINUTES, RATE = 90, 1_000
PARTITIONS = 2


@pytest.mark.live
@pytest.mark.spark
@pytest.mark.prove
@pytest.mark.timeout(4 * 3_600)
def test_ninety_minutes_of_faults_change_no_row_and_nothing_grows(tmp_path):
    assert verdict.report(play(tmp_path / "soak", MINUTES, RATE, seed=1), keeps=True) == 0


def test_a_lost_row_and_a_doubled_one_are_found(tmp_path):
    tables = make_tables(tmp_path / "tables")
    shards = [[] for _ in range(PARTITIONS)]
    for event in telemetry(4, 30):
        for row in rows_of(event, encode(event), PARTITIONS):
            shard = shards[row.partition]
            shard.append(LogRow(row.partition, len(shard), row.key, row.value, event.time))
    for partition, shard in enumerate(shards):
        archive(tables, [row._replace(key=None) for row in shard])
        rows = [ShardRow(row.offset, row.stamp, row.key, row.value) for row in shard]
        append(tables, effects(rows, Policy(), partition, keyed=True))
    assert differences(tables, tmp_path / "scratch", PARTITIONS)[1] == []
    assert Archive(tables, tmp_path / "scratch").counts() == {
        partition: (len(shard), len(shard), 0, len(shard) - 1) for partition, shard in enumerate(shards)
    }
    [first, *_] = read_rows(tables, "group_state")
    append_rows(tables, "group_state", [first])
    DeltaTable(tables / "queue_progress").delete("kind = 'CONSUMER_RUNNING_INFO'")
    sentences = differences(tables, tmp_path / "scratch", PARTITIONS)[1]
    kinds = {one.partition(": ")[0] for one in sentences}
    assert kinds == {"group_state", "group_state has too much", "queue_progress", "queue_progress lacks"}


def test_growth_is_found_beneath_restarts_and_none_where_there_is_none():
    saw = [(minute / 6, 100.0 + minute % 60) for minute in range(540)]
    grows = [(minute, value + minute * 0.5) for minute, value in saw]
    assert trend(Measure("saw", saw, 0.1, 5)).is_flat
    assert not trend(Measure("grows", grows, 0.1, 5)).is_flat


def test_times_are_those_of_a_machine_that_is_equally_fast_all_the_time(tmp_path):
    """From minute 60 on all takes twice as long; a batch of the archive grows besides."""
    slow = [1.0 + (minute >= 60) for minute in range(96)]
    samples = [
        Sample(
            time=minute * 60_000, load=1.0, cpu=0.0, end={0: 60_000 * minute}, scrape=4.0 * slow[minute],
            processes={"sender": Used(processes=1, cpu=3.0 * sum(slow[:minute]))},
        )
        for minute in range(96)
    ]  # fmt: skip
    said = [
        {"time": f"1970-01-01T{minute // 60:02}:{minute % 60:02}:00+00:00", "query": query, "rows": 20_000, "ms": ms}
        for minute in range(96)
        for query, ms in (("operator", 5_000 * slow[minute]), ("archive", 5_000 * (1 + minute / 96) * slow[minute]))
    ]
    run = Run(minutes=95, rate=1_000, seed=1, commit="", date="", cores=2, began=0)
    (tmp_path / "run.json").write_bytes(msgspec.json.encode(run))
    (tmp_path / "samples.jsonl").write_bytes(msgspec.json.Encoder().encode_lines(samples))
    (tmp_path / "up.log").write_bytes(msgspec.json.Encoder().encode_lines(said))
    grown = flatness(measures_of(Soaked(tmp_path)))[1]
    assert [one.partition(":")[0] for one in grown] == ["archive"]


def test_the_picture_has_the_highest_value_of_each_minute():
    drawn = picture("title", {"memory": [(0.1, 50.0), (0.2, 100.0), (1.5, 25.0)]}, [(1.0, "ours")], 2.0)
    [points] = re.findall(r'points="([^"]*)"', drawn)
    heights = [float(point.partition(",")[2]) for point in points.split()]
    assert len(heights) == 2  # of two minutes
    assert heights[0] < heights[1]  # further up
    assert "highest 100, last 25" in drawn
