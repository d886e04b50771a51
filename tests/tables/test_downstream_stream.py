"""Another team's Spark streams over the tables: each row once, through appends, maintenance, retention and a swap.

They follow schemas/BUILDING.md and know nothing else.
"""

import os
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from checkpoints.generation import claimed
from checkpoints.manifest import SWAP_MARK, Swap
from checkpoints.swap import apply
from schemas.arrow import in_epoch_ms, table_of
from streaming.tables.maintenance import Limits, maintain
from tests.support.basis import BASIS
from tests.support.tables import append_rows, read_rows, small_row

SHORTENED, BY_DAY = "rebalances", "queue_progress"
DAY_MS = 86_400_000
TWO_DAYS = Limits(replaced_ms=2 * DAY_MS, versions_days=2)
DROPPED = Limits(rows_since=50 * DAY_MS, replaced_ms=2 * DAY_MS, versions_days=2)


class Stream:
    """A stream with its own checkpoint, which is started for what is there and ends."""

    def __init__(self, spark, table: Path, **options: object) -> None:
        self._reader = spark.readStream.format("delta").options(**options)
        self._table, self._checkpoint = table, table.parent.parent / f"stream-{table.name}-{'-'.join(options)}"
        self.seen: Counter[tuple[str, int]] = Counter()
        """How often each row, by its number, came as what kind of change."""

    def run(self) -> None:
        def take(batch, _number: int) -> None:
            day = "CAST(unix_millis(time) DIV 86400000 AS INT)"  # as `write` numbers rows
            kinds = "_change_type" if "_change_type" in batch.columns else "'insert' AS _change_type"
            self.seen.update((row[0], row[1]) for row in batch.selectExpr(kinds, day).collect())

        writer = self._reader.load(str(self._table)).writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    def count(self, kind: str) -> dict[int, int]:
        return {seq: count for (of, seq), count in sorted(self.seen.items()) if of == kind}


def once(*seqs: int) -> dict[int, int]:
    return dict.fromkeys(sorted(seqs), 1)


def write(tables: Path, *seqs: int) -> None:
    """Append a row for each: in a commit of its own, of the day of its number; a partition has two or more."""
    for table in (SHORTENED, BY_DAY):
        for seq in seqs:
            row = small_row(table) | {"seq": seq, "time": seq * DAY_MS}
            append_rows(tables, table, [row | ({"date": seq - seq % 2} if table == BY_DAY else {})])


def a_day_passes(table: Path) -> None:
    for file in (table / "_delta_log").glob("0*"):
        then = file.stat().st_mtime - 86_400
        os.utime(file, (then, then))


def swap(root: Path, *seqs: int, swap_id: str = "the-swap") -> None:
    """Replace all rows, as a rebuild does."""
    rows = root / "checkpoints" / swap_id / SHORTENED
    rows.mkdir(parents=True)
    made = [small_row(SHORTENED) | {"seq": seq, "time": seq * DAY_MS} for seq in seqs]
    pq.write_table(table_of(SHORTENED, made), rows / "0.parquet")
    apply(Swap(swap_id, (SHORTENED,), swap_id, ""), root / "checkpoints", root / "tables")


@pytest.mark.timeout(600)
def test_streams_get_each_row_once_through_maintenance_and_a_swap(tmp_path, spark):
    tables = tmp_path / "tables"
    with claimed(tmp_path / "checkpoints", tables, BASIS, versions_days=2):
        write(tables, 10, 11, 60)
    changes = Stream(spark, tables / SHORTENED, readChangeFeed="true")
    appends = [Stream(spark, tables / name, ignoreDeletes="true") for name in (SHORTENED, BY_DAY)]
    for stream in (changes, *appends):
        stream.run()
        assert stream.count("insert") == once(10, 11, 60)

    write(tables, 61, 62)
    kept = DeltaTable(tables / SHORTENED).version()
    for table in (SHORTENED, BY_DAY):
        a_day_passes(tables / table)
        assert maintain(tables, table, TWO_DAYS).merged > 1
        assert maintain(tables, table, DROPPED).rows_dropped == 2
    write(tables, 63)
    for stream in (changes, *appends):  # a day behind, with all that was merged and dropped meanwhile
        stream.run()
        assert stream.count("insert") == once(10, 11, 60, 61, 62, 63)
    assert changes.count("delete") == once(10, 11)
    at = f"SELECT seq FROM delta.`{tables / SHORTENED}` VERSION AS OF {kept}"
    assert sorted(row.seq for row in spark.sql(at).collect()) == [10, 11, 60, 61, 62]

    assert SWAP_MARK not in DeltaTable(tables / SHORTENED).metadata().configuration
    swap(tmp_path, 60, 61, 62, 63, 64)
    assert DeltaTable(tables / SHORTENED).metadata().configuration[SWAP_MARK] == "the-swap"
    write(tables, 65)
    changes.run()
    assert changes.count("delete") == once(10, 11, 60, 61, 62, 63)
    assert changes.count("insert") == once(10, 11) | dict.fromkeys((60, 61, 62, 63), 2) | once(64, 65)
    with pytest.raises(Exception, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        appends[0].run()
    again = Stream(spark, tables / SHORTENED, ignoreDeletes="true", ignoreChanges="false")  # a new checkpoint
    again.run()
    assert again.count("insert") == once(60, 61, 62, 63, 64, 65)
    appends[1].run()
    assert appends[1].count("insert") == once(10, 11, 60, 61, 62, 63, 65)

    maintain(tables, SHORTENED, Limits(rows_since=70 * DAY_MS, replaced_ms=2 * DAY_MS, versions_days=2))
    swap(tmp_path, 60, 61, swap_id="undone")  # rows that this stream has seen, in a table that had none any more
    with pytest.raises(Exception, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        again.run()
    assert again.count("insert") == once(60, 61, 62, 63, 64, 65)


@pytest.mark.timeout(600)
def test_a_stream_that_is_behind_by_more_than_the_log_is_kept_ends(tmp_path, spark):
    table = tmp_path / "tables" / BY_DAY
    with claimed(tmp_path / "checkpoints", tmp_path / "tables", BASIS, versions_days=2):
        write(tmp_path / "tables", 60)
    stream = Stream(spark, table, ignoreDeletes="true")
    stream.run()
    write(tmp_path / "tables", 61, 62)
    for _ in range(3):
        a_day_passes(table)
    maintain(tmp_path / "tables", BY_DAY, TWO_DAYS)
    write(tmp_path / "tables", 63)
    maintain(tmp_path / "tables", BY_DAY, TWO_DAYS)
    with pytest.raises(Exception, match="DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE"):
        stream.run()
    again = Stream(spark, table, ignoreDeletes="true", ignoreChanges="false")  # a new checkpoint
    again.run()
    assert again.count("insert") == once(60, 61, 62, 63)


def test_a_swap_that_was_interrupted_is_named_by_the_table_afterwards(tmp_path, monkeypatch):
    with claimed(tmp_path / "checkpoints", tmp_path / "tables", BASIS, versions_days=2):
        write(tmp_path / "tables", 60)
    monkeypatch.setattr("checkpoints.swap._note_swap", lambda *_: None)
    swap(tmp_path, 61)
    table = DeltaTable(tmp_path / "tables" / SHORTENED)
    assert SWAP_MARK not in table.metadata().configuration
    monkeypatch.undo()
    shutil.rmtree(tmp_path / "checkpoints" / "the-swap")
    swap(tmp_path, 61)  # repeated by the next start
    table.update_incremental()
    assert table.metadata().configuration[SWAP_MARK] == "the-swap"
    assert [row["seq"] for row in read_rows(tmp_path / "tables", SHORTENED)] == [61]
    version = table.version()
    apply(Swap("the-swap", (SHORTENED,), "the-swap", ""), tmp_path / "checkpoints", tmp_path / "tables")
    table.update_incremental()
    assert table.version() == version


def test_the_feed_of_changes_costs_no_bytes(tmp_path):
    """Neither appends, merges, drops nor swaps write files of changes, which readers derive from added and removed."""
    with claimed(tmp_path / "checkpoints", tmp_path / "tables", BASIS, versions_days=2):
        write(tmp_path / "tables", 10, 11, 60)
    assert maintain(tmp_path / "tables", SHORTENED, TWO_DAYS).merged == 3
    assert maintain(tmp_path / "tables", SHORTENED, DROPPED).rows_dropped == 2
    swap(tmp_path, 60, 61)
    table = tmp_path / "tables" / SHORTENED
    assert not list(table.rglob("_change_data"))
    assert DeltaTable(table).protocol().min_writer_version == 4
    for commit in sorted((table / "_delta_log").glob("*.json")):
        text = commit.read_text()
        adds, removes = '"add"' in text, '"remove"' in text
        assert not (adds and removes and '"dataChange":true' in text) or "the-swap" in text
    changes = in_epoch_ms(pa.table(DeltaTable(table).load_cdf(starting_version=1))).to_pylist()
    assert Counter((row["_change_type"], row["time"] // DAY_MS) for row in changes) == Counter(
        [*(("insert", seq) for seq in (10, 11, 60, 60, 61)), *(("delete", seq) for seq in (10, 11, 60))]
    )
