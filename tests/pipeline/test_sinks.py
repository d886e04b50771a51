import datetime as dt
import json
import threading

import pytest
from deltalake import DeltaTable, TableFeatures
from deltalake.exceptions import CommitFailedError
from pyspark.sql.pandas.types import from_arrow_schema

from checkpoints.generation import claimed
from schemas.arrow import arrow_schema, table_of
from streaming.base.errors import UserError
from streaming.pipeline import job_watch, sinks
from streaming.pipeline.effects import EFFECT_SCHEMA
from streaming.pipeline.sinks import TableSink, write_effects
from tests.support.basis import BASIS
from tests.support.tables import read_rows, small_row

pytestmark = pytest.mark.spark


@pytest.fixture
def sink(tmp_path):
    with claimed(tmp_path / "checkpoints", tmp_path / "tables", BASIS) as generation:
        yield TableSink(tmp_path / "tables", "operator", generation)


def row_of(table: str, **fields: object) -> dict[str, object]:
    return small_row(table) | fields


def change(queue: int) -> dict[str, object]:
    return row_of("assignment_history", queue_id=queue)


def batch_of(spark, *effects: tuple[str, dict[str, object]]):
    rows = [(table, 1, json.dumps(row).encode() + b"\n") for table, row in effects]
    return spark.createDataFrame(rows, EFFECT_SCHEMA)


def rows_in(sink: TableSink, table: str) -> list[dict[str, object]]:
    return read_rows(sink.tables, table)


def test_a_batch_that_is_done_again_is_written_once(spark, sink):
    batch = batch_of(spark, ("assignment_history", change(1)), ("assignment_history", change(2)))
    write_effects(batch, sink, 0)
    write_effects(batch, sink, 0)
    assert sorted(row["queue_id"] for row in rows_in(sink, "assignment_history")) == [1, 2]
    write_effects(batch, sink, 1)
    assert len(rows_in(sink, "assignment_history")) == 4


def test_of_two_runs_that_append_a_batch_at_once_one_fails(sink, monkeypatch):
    rows = table_of("assignment_history", [change(1)])
    before = DeltaTable(sink.tables / "assignment_history")
    TableSink(sink.tables, sink.query, sink.generation).append_arrow(rows, "assignment_history", batch_id=0)
    monkeypatch.setattr(sinks, "delta_at", lambda _: before)  # the other run looked before the first one's commit
    with pytest.raises(CommitFailedError, match=job_watch.OTHER_RUN[-1]):
        sink.append_arrow(rows, "assignment_history", batch_id=0)
    assert len(rows_in(sink, "assignment_history")) == 1


def test_a_table_stays_open_for_some_appends_and_is_looked_at_again(sink, monkeypatch):
    opened, delta_at = [], sinks.delta_at
    monkeypatch.setattr(sinks, "delta_at", lambda place: opened.append(place) or delta_at(place))
    rows, table = table_of("assignment_history", [change(1)]), "assignment_history"
    for batch_id in range(sinks.APPENDS_MAX + 1):
        sink.append_arrow(rows, table, batch_id=batch_id)
        sink.append_arrow(rows, table, batch_id=batch_id)
        if batch_id == 3:
            DeltaTable(sink.tables / table).optimize.compact()
    assert len(opened) == 3
    assert len(rows_in(sink, table)) == sinks.APPENDS_MAX + 1
    DeltaTable(sink.tables / table).alter.add_feature(
        TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    with pytest.raises(UserError, match="deletionVectors, with which this program does not"):
        sink.append_arrow(rows, table, batch_id=99)
    assert DeltaTable(sink.tables / table).transaction_version(sink._application(table)) == sinks.APPENDS_MAX


@pytest.mark.parametrize("sizes", [(sinks.FETCHED_BYTES_MAX + 1, 1), (1, sinks.FETCHED_BYTES_MAX + 1), (2**40, 2**40)])
def test_a_batch_is_written_once_by_spark_or_by_the_driver(spark, sink, sizes):
    """A batch that is repeated after a crash may be appended in the other way."""
    archive = TableSink(sink.tables, "archive", sink.generation)
    row = (0, 5, None, b"\xff", "invalid_utf8", "byte 0", "topic t", dt.datetime.now(dt.UTC))
    rows = spark.createDataFrame([row], from_arrow_schema(arrow_schema("telemetry_rejected")))
    for size in sizes:
        archive.append(rows, "telemetry_rejected", batch_id=3, count=1, size=size)
    assert len(rows_in(sink, "telemetry_rejected")) == 1
    for batch_id, size in enumerate(sizes, start=4):
        archive.append(rows, "telemetry_rejected", batch_id=batch_id, count=1, size=size)
    assert len(rows_in(sink, "telemetry_rejected")) == 3


def test_what_was_written_before_a_crash_is_kept_and_the_rest_follows(spark, sink, monkeypatch):
    """The batch ends after its first table, as with kill -9; done again, each table has each row once."""
    batch = batch_of(spark, ("assignment_history", change(1)), ("anomalies", row_of("anomalies")))
    whole = TableSink.append_arrow

    def crash_at_incidents(self, rows, table, *, batch_id):
        if table == "anomalies":
            raise KeyboardInterrupt
        whole(self, rows, table, batch_id=batch_id)

    with monkeypatch.context() as patch:
        patch.setattr(TableSink, "append_arrow", crash_at_incidents)
        with pytest.raises(KeyboardInterrupt):
            write_effects(batch, sink, 0)
    assert len(rows_in(sink, "assignment_history")) == 1, "evidence is visible before what rests on it"
    assert rows_in(sink, "anomalies") == []
    write_effects(batch, sink, 0)
    assert len(rows_in(sink, "assignment_history")) == len(rows_in(sink, "anomalies")) == 1


def test_tables_of_evidence_are_appended_at_once_and_incidents_last(spark, sink, monkeypatch):
    tables = ("assignment_history", "queue_state", "anomalies")
    batch = batch_of(spark, *((table, row_of(table)) for table in tables))
    whole, both, written = TableSink.append_arrow, threading.Barrier(2), []

    def append(self, rows, table, *, batch_id):
        if table != "anomalies":
            both.wait(timeout=120)
        whole(self, rows, table, batch_id=batch_id)
        written.append(table)

    monkeypatch.setattr(TableSink, "append_arrow", append)
    write_effects(batch, sink, 0)
    assert sorted(written) == sorted(tables)
    assert written[-1] == "anomalies"


def test_without_all_evidence_there_is_no_incident(spark, sink, monkeypatch):
    batch = batch_of(spark, ("assignment_history", change(1)), ("anomalies", row_of("anomalies")))
    whole = sinks.append

    def full(delta, *given):
        if delta.table_uri.rstrip("/").endswith("assignment_history"):
            raise OSError("full")
        return whole(delta, *given)

    with monkeypatch.context() as patch:
        patch.setattr(sinks, "append", full)
        with pytest.raises(OSError, match="full"):
            write_effects(batch, sink, 0)
    assert rows_in(sink, "anomalies") == []
    write_effects(batch, sink, 0)
    assert len(rows_in(sink, "assignment_history")) == len(rows_in(sink, "anomalies")) == 1


def test_a_table_without_rows_gets_no_commit(spark, sink):
    write_effects(batch_of(spark, ("assignment_history", change(1))), sink, 0)
    assert DeltaTable(sink.tables / "rebalances").version() == 0
