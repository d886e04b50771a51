"""The archive query over real files, Spark and Delta."""

import base64
import gzip
import json
import os
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from structlog.testing import capture_logs

from checkpoints.generation import claimed
from checkpoints.manifest import ARCHIVE, Basis
from rebalance_model.observe.policy import Policy
from schemas.json_schema import FOLDER
from streaming.pipeline import archive, sinks
from streaming.pipeline.archive import ArchiveError, archive_batch, start_archive
from streaming.pipeline.archive_rows import Transport
from streaming.pipeline.batches import BatchTimes
from streaming.pipeline.sinks import TableSink
from tests.support.tables import read_rows

pytestmark = pytest.mark.spark
MTIME_MS = 1_795_300_000_000
"""After every example's time."""
GOOD = (FOLDER / "examples" / "accepted" / "real.jsonl").read_bytes().splitlines()


def bad_lines() -> list[tuple[bytes, str]]:
    """Every input of the examples that can be a line of a file, and one over the limit, with the reason."""
    lines = [(b"{" + b" " * 1_000_001, "too_large")]
    for file in sorted((FOLDER / "examples" / "rejected").glob("*")):
        for example in map(json.loads, file.read_bytes().splitlines()):
            if example.get("keyed") or "stamp" in example:
                continue
            value = base64.b64decode(example["base64"]) if "base64" in example else example["value"].encode()
            if b"\n" not in value:
                lines.append((value, example["reason"]))
    return lines


def write_log(folder: Path) -> tuple[list[bytes], list[tuple[bytes, str]]]:
    """Four files of two partitions: good rows, bad ones among them, a torn tail and a torn .gz."""
    bad = bad_lines()
    torn = gzip.compress(b"\n".join(GOOD[12:]) + b"\n")[:-300]
    files = {
        "partition=0/00000000000000000000.jsonl": b"\n".join([*GOOD[:6], *(line for line, _ in bad)]) + b"\n",
        "partition=1/00000000000000000000.jsonl.gz": gzip.compress(b"\n".join(GOOD[6:12]) + b'\n{"type":"TI'),
        "partition=1/00000000000000000001.jsonl.gz": torn,
        "partition=0/00000000000000000001.jsonl": b"\n".join(GOOD[:3]) + b"\n",
    }
    for number, (name, content) in enumerate(files.items()):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        os.utime(file, (MTIME_MS / 1000 + number, MTIME_MS / 1000 + number))
    return GOOD[:12] + GOOD[:3], bad


def run(spark, settings) -> None:
    basis = Basis(source="test", partitions=2, state_partitions=2, code_version="0", policy=Policy())
    with claimed(settings.runtime.checkpoints, settings.runtime.tables, basis) as generation:
        start_archive(spark, settings, generation, available_now=True).awaitTermination()


def rows(settings, table: str) -> list[dict]:
    return sorted(read_rows(settings.runtime.tables, table), key=repr)


def test_every_row_is_kept_as_event_or_as_rejected_however_the_log_is_cut(spark, settings_in, tmp_path):
    good, bad = write_log(tmp_path / "log")
    one_batch, two_batches = (
        settings_in(tmp_path / str(files), path=str(tmp_path / "log"), partitions=2, files_per_batch=files)
        for files in (64, 2)
    )
    for settings in (one_batch, two_batches):
        run(spark, settings)

    accepted, rejected = rows(one_batch, "telemetry"), rows(one_batch, "telemetry_rejected")
    readable = [line.encode() for line in (row["value"] for row in accepted)]
    assert Counter(good) <= Counter(readable)
    assert Counter(readable) <= Counter(good + GOOD[12:])  # what a torn .gz still gives
    kept = Counter((row["value"], row["reason"]) for row in rejected)
    torn = kept - Counter(bad)
    assert kept - torn == Counter(bad)
    assert sum(torn.values()) == 2  # the torn tail, and where the .gz broke off
    offsets = {(row["partition"], row["offset"]) for row in accepted + rejected}
    assert len(offsets) == len(accepted) + len(rejected)

    assert rows(two_batches, "telemetry") == accepted
    assert rows(two_batches, "telemetry_rejected") == rejected
    file = next((one_batch.runtime.tables / "telemetry").rglob("part-*.parquet"))
    assert pq.ParquetFile(file).metadata.row_group(0).column(1).statistics.has_min_max, "times are read by these"
    verdicts = rows(two_batches, "quality_results")
    assert {row["batch_id"] for row in verdicts} == {0, 1}
    failed = {(row["batch_id"], row["expectation"]) for row in verdicts if not row["success"]}
    assert (0, "expect_table_row_count_to_be_between") in failed  # far more than one row in a hundred was rejected


def test_a_start_goes_on_where_the_last_one_ended(spark, settings_in, tmp_path):
    log = tmp_path / "log" / "partition=0"
    log.mkdir(parents=True)
    settings = settings_in(tmp_path, path=str(log.parent), partitions=2)
    for number in range(2):
        file = log / f"{number:020d}.jsonl"
        file.write_bytes(GOOD[number] + b"\n")
        os.utime(file, (MTIME_MS / 1000 + number, MTIME_MS / 1000 + number))
        run(spark, settings)
    run(spark, settings)  # without anything new

    assert Counter(row["value"].encode() for row in rows(settings, "telemetry")) == Counter(GOOD[:2])
    assert {row["batch_id"] for row in rows(settings, "quality_results")} == {0, 1}


def test_a_batch_begins_when_one_of_the_operator_has_ended(spark, settings_in, tmp_path, monkeypatch):
    """Spark starts both at the same time, and the operator's would take twice as long."""
    monkeypatch.setattr(sinks, "AFTER_SECONDS_MAX", 60)
    good, _ = write_log(tmp_path / "log")
    settings = settings_in(tmp_path, path=str(tmp_path / "log"), partitions=2)
    operator, times = BatchTimes(), BatchTimes()
    basis = Basis(source="test", partitions=2, state_partitions=2, code_version="0", policy=Policy())
    with claimed(settings.runtime.checkpoints, settings.runtime.tables, basis) as generation:
        query = start_archive(spark, settings, generation, available_now=False, times=times, after=operator)
        try:
            assert not query.awaitTermination(4)
            assert query.lastProgress is None, "it has ended a batch, and the operator none"
            while query.lastProgress is None and query.isActive:
                operator.end()
                time.sleep(0.05)
        finally:
            query.stop()
    assert len(rows(settings, "telemetry")) >= len(good)
    assert times.take(0)[0].name == "wait for the other query"


@pytest.fixture
def batch(spark):
    """A batch of three rows, one of them bad."""
    values = [(0, offset, None, value, MTIME_MS) for offset, value in enumerate([*GOOD[:2], b"?"])]
    return spark.createDataFrame(values, "partition INT, offset LONG, key BINARY, value BINARY, stamp LONG")


@pytest.fixture
def sink(settings_in, tmp_path):
    """Tables that exist, and what appends to them."""
    settings = settings_in(tmp_path)
    basis = Basis(source="test", partitions=2, state_partitions=2, code_version="0", policy=Policy())
    with claimed(settings.runtime.checkpoints, settings.runtime.tables, basis) as generation:
        yield TableSink(settings.runtime.tables, ARCHIVE, generation)


def count(sink: TableSink, table: str) -> int:
    return DeltaTable(sink.tables / table).to_pyarrow_dataset().count_rows()


def test_a_batch_that_is_done_again_doubles_nothing(batch, sink):
    for _ in range(2):
        archive_batch(batch, 0, Transport(None), sink)
    assert (count(sink, "telemetry"), count(sink, "telemetry_rejected"), count(sink, "quality_results")) == (2, 1, 4)

    archive_batch(batch, 1, Transport(None), sink)
    assert (count(sink, "telemetry"), count(sink, "telemetry_rejected")) == (4, 2)


def test_a_batch_without_rows_writes_nothing(batch, sink):
    archive_batch(batch.where("offset < 0"), 0, Transport(None), sink)
    archive_batch(batch.where("false"), 1, Transport(None), sink)

    assert [count(sink, table) for table in ("telemetry", "telemetry_rejected", "quality_results")] == [0, 0, 0]


def test_a_batch_that_would_lose_a_row_fails_and_writes_nothing(batch, sink, monkeypatch):
    def lossy(batches, transport):
        from streaming.pipeline.archive_rows import archived  # noqa: PLC0415  runs in a worker

        for each in archived(batches, transport):
            yield each.slice(1)

    monkeypatch.setattr(archive, "archived", lossy)

    with pytest.raises(ArchiveError, match=r"batch 5: \d accepted \+ \d rejected are not 3 read"):
        archive_batch(batch, 5, Transport(None), sink)
    assert (count(sink, "telemetry"), count(sink, "telemetry_rejected")) == (0, 0)


def test_a_failed_check_keeps_the_rows_and_warns(batch, sink):
    with capture_logs() as lines:
        archive_batch(batch, 0, Transport(None), sink)

    assert count(sink, "telemetry") == 2
    assert any("More than one row in a hundred was rejected" in str(line) for line in lines)
