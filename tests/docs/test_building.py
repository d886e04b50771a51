"""Promises of schemas/BUILDING.md about the tables to other engines."""

import re
from datetime import UTC, date, datetime

import pytest
from deltalake import DeltaTable

from schemas.tables import TABLES
from streaming.tables.maintenance import Limits, maintain
from streaming.tables.versions import keep_versions
from tests.docs.source import ROOT
from tests.support.tables import append_rows, make_tables, small_row

WORDS = 1_200


@pytest.mark.parametrize("table", TABLES)
def test_no_table_needs_a_feature_of_delta(table, tmp_path):
    make_tables(tmp_path)
    append_rows(tmp_path, table, [small_row(table) | {"date": date(2026, 11, 27)}])
    append_rows(tmp_path, table, [small_row(table) | {"date": date(2026, 11, 27)}])
    maintain(tmp_path, table, Limits())

    protocol = DeltaTable(tmp_path / table).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert not protocol.reader_features
    assert not protocol.writer_features
    log = (tmp_path / table / "_delta_log").glob("*.json")
    assert not any("deletionVector" in commit.read_text() for commit in log)


@pytest.mark.spark
def test_each_statement_of_the_page_runs_and_answers_right(spark, tmp_path):
    tables = make_tables(tmp_path / ".rebalance-watch/tables")
    row = {"date": date(2026, 11, 27)}
    for table in ("anomalies", "queue_progress", "queue_state"):
        keep_versions(DeltaTable(tables / table), 2)
        for _ in range(2):
            append_rows(tables, table, [small_row(table) | row])
    first = DeltaTable(tables / "anomalies").version() - 1
    page = (ROOT / "schemas/BUILDING.md").read_text("utf-8").replace(".rebalance-watch/tables", str(tables))
    [timed, restoring] = re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    changes, appends, swap, former = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)

    names = {"spark": spark, "DeltaTable": DeltaTable}
    exec(changes + appends, names)  # text of this repository
    assert [streamed(names[kind], tmp_path / kind) for kind in ("changes", "appends")] == [2, 2]
    assert eval(swap, names) is None
    assert len(eval(former.replace("1234", str(first)), names)) == 1
    log = tables / f"anomalies/_delta_log/{first + 1:020}.json"
    log_time = datetime.fromtimestamp(log.stat().st_mtime, UTC)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    at = timed.replace("2026-11-26 12:00:00", f"{log_time:%Y-%m-%d %H:%M:%S.%f}")
    assert spark.sql(at).collect() == [(2,)]
    before = DeltaTable(tables / "queue_state").version() - 1
    for statement in restoring.replace("1234", str(before)).split(";")[:-1]:
        spark.sql(statement)
    spark.conf.unset("spark.databricks.delta.restore.protocolDowngradeAllowed")
    assert DeltaTable(tables / "queue_state").to_pyarrow_table().num_rows == 1


def streamed(stream, folder) -> int:
    """Return the number of rows that a stream gives until now."""
    counts: list[int] = []
    writer = stream.writeStream.foreachBatch(lambda rows, _: counts.append(rows.count()))
    writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start().awaitTermination()
    return sum(counts)


def test_the_page_is_short():
    page = (ROOT / "schemas/BUILDING.md").read_text("utf-8")
    written_by_hand = re.sub(r"<!-- generated.*?<!-- end[^\n]*", "", page, flags=re.DOTALL)
    assert len(written_by_hand.split()) <= WORDS
