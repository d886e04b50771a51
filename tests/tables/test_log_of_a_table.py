"""Maintenance of a table's Delta log: each file has its statistics, and a checkpoint has one writer."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyspark.sql.pandas.types import from_arrow_schema

from schemas.arrow import arrow_schema, table_of
from streaming.tables import maintenance
from streaming.tables.files import files_of
from streaming.tables.maintenance import Limits, maintain
from tests.support.story import log
from tests.support.tables import accepted, make_tables
from tests.tables.test_maintenance import HISTORY, Job, rows_of


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def bare_of(table: Path) -> None:
    """Add each file again without statistics, as another writer may."""
    delta = DeltaTable(table)
    files = files_of(table.name, delta)
    added = [AddAction(file.path, file.size, {}, file.written, False, "") for file in files]
    delta.create_write_transaction(added, mode="append", schema=delta.schema(), partition_by=[])


def test_files_without_statistics_get_them_before_anything_is_merged(job):
    for at in range(1, 7):
        job.owners(at)
    tables, before = job.root / "tables", rows_of(job.root / "tables", HISTORY)
    bare_of(tables / HISTORY)
    assert {file.rows for file in files_of(HISTORY, DeltaTable(tables / HISTORY))} == {0}

    assert maintain(tables, HISTORY, Limits(), dry_run=True).merged == 6
    assert maintain(tables, HISTORY, Limits()).merged == 6
    [file] = files_of(HISTORY, DeltaTable(tables / HISTORY))
    assert (file.rows, file.begins, file.ends) == (30, 1, 6)
    assert rows_of(tables, HISTORY) == before


def test_a_large_file_without_statistics_is_not_written_again(job, monkeypatch):
    monkeypatch.setattr(maintenance, "FILE_ROWS", 5)
    job.owners(3)
    tables = job.root / "tables"
    bare_of(tables / HISTORY)
    files = DeltaTable(tables / HISTORY).file_uris()

    assert maintain(tables, HISTORY, Limits()).merged == 0
    assert DeltaTable(tables / HISTORY).file_uris() == files
    [file] = files_of(HISTORY, DeltaTable(tables / HISTORY))
    assert (file.rows, file.begins) == (5, 3)


def test_a_file_without_rows_changes_nothing(job, monkeypatch):
    monkeypatch.setattr(maintenance, "FILE_ROWS", 1)
    job.owners(3)
    table = job.root / "tables" / HISTORY
    pq.write_table(table_of(HISTORY, []), table / "empty.parquet")
    there = DeltaTable(table)
    empty = AddAction("empty.parquet", (table / "empty.parquet").stat().st_size, {}, 1, False, '{"numRecords": 0}')
    there.create_write_transaction([empty], mode="append", schema=there.schema(), partition_by=[])
    before = DeltaTable(table).version()

    maintain(job.root / "tables", HISTORY, Limits())
    assert DeltaTable(table).version() == before


def test_the_checkpoint_of_a_commit_is_left_to_who_commits(job, monkeypatch):
    monkeypatch.setattr(maintenance, "FILE_ROWS", 1)  # so nothing is merged, and no commit is made
    tables, log = job.root / "tables", job.root / "tables" / HISTORY / "_delta_log"
    for at in range(21):
        job.owners(at)
        if DeltaTable(tables / HISTORY).version() in {20, 21}:
            checkpoints = {file.name: file.stat().st_ino for file in log.glob("*.checkpoint.parquet")}
            maintain(tables, HISTORY, Limits())
            made = {file.name: file.stat().st_ino for file in log.glob("*.checkpoint.parquet")}
            assert made.items() >= checkpoints.items()
            assert [int(name.partition(".")[0]) for name in made.keys() - checkpoints.keys()] == [21] * (at == 20)
    assert at == 20


@pytest.mark.spark
def test_spark_and_maintenance_never_write_the_same_checkpoint_of_the_log(spark, tmp_path, monkeypatch):
    """Spark's description of a checkpoint that delta-rs has written hides its statistics from delta-rs."""
    monkeypatch.setattr(maintenance, "FILE_ROWS", 1)
    make_tables(tmp_path)
    table, rows = tmp_path / "telemetry", accepted(log())
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.checkpointInterval' = '4')")
    frame = spark.createDataFrame(table_of("telemetry", rows).to_pandas(), from_arrow_schema(arrow_schema("telemetry")))
    while DeltaTable(table).version() < 4:
        frame.coalesce(1).write.format("delta").mode("append").save(str(table))
    sizes = {file.rows for file in files_of("telemetry", DeltaTable(table))}
    described = (table / "_delta_log/_last_checkpoint").read_bytes()

    maintain(tmp_path, "telemetry", Limits())
    [checkpoint] = (table / "_delta_log").glob(f"{4:020}.checkpoint.parquet")
    assert "stats_parsed" in pq.read_schema(checkpoint).field("add").type.names  # Spark's own

    checkpoint.unlink()
    (table / "_delta_log/_last_checkpoint").unlink()
    DeltaTable(table).create_checkpoint()  # as a maintenance of an earlier release did before Spark came to it
    (table / "_delta_log/_last_checkpoint").write_bytes(described)
    assert {file.rows for file in files_of("telemetry", DeltaTable(table))} == {0}
    maintain(tmp_path, "telemetry", Limits())
    assert {file.rows for file in files_of("telemetry", DeltaTable(table))} == sizes
    assert spark.read.format("delta").load(str(table)).count() == 3 * len(rows) == DeltaTable(table).count()
