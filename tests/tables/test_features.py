"""Features of Delta that somebody switched on: a table that would be read or written wrongly is refused, by name."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from checkpoints.generation import claimed, verify
from checkpoints.manifest import Swap
from checkpoints.swap import apply
from schemas.arrow import arrow_schema
from streaming.base.errors import UserError
from streaming.cli import main
from streaming.serve.metrics.pipeline import Sizes
from streaming.tables import ReadModel
from streaming.tables.append import append
from streaming.tables.delta import READ, WRITTEN
from streaming.tables.maintenance import Limits, maintain
from streaming.tables.table import register
from tests.support.basis import BASIS
from tests.support.features import LISTED, READER, raise_protocol
from tests.support.tables import append_rows, small_row

TABLE, OTHER = "queue_state", "group_state"
DELETED = rf"The table {TABLE} has the Delta feature deletionVectors, with which this program does not read it: "


def root_with_rows(root: Path) -> Path:
    """Create the tables as a start of the job does, with ten rows in ten files in two of them."""
    with claimed(root / "checkpoints", root / "tables", BASIS, versions_days=2):
        for table in (TABLE, OTHER):
            for seq in range(10):
                append_rows(root / "tables", table, [small_row(table) | {"seq": seq}])
    return root / "tables"


def counted(model: ReadModel, table: str) -> int:
    [row] = model.rows(f"SELECT count(*) AS n FROM {table} t")
    return int(row["n"])


def sized(sizes: Sizes) -> set[str]:
    """Return the tables whose size is a metric."""
    return {sample.labels["table"] for family in sizes.families() for sample in family.samples}


def writes(tables: Path) -> list[Callable[[], object]]:
    """Return each kind of writing to the table, as a function."""
    return [
        lambda: append(tables / TABLE, pa.Table.from_pylist([small_row(TABLE)], arrow_schema(TABLE))),
        lambda: maintain(tables, TABLE, Limits(rows_since=2, replaced_ms=0)),
        lambda: apply(Swap("swap", (TABLE,), "rows", ""), tables.parent / "checkpoints", tables),
        lambda: verify(tables.parent / "checkpoints", tables),
        lambda: claimed(tables.parent / "checkpoints", tables, BASIS).__enter__(),
    ]


def test_a_row_deleted_by_a_deletion_vector_is_shown_and_written_by_none(tmp_path, spark, monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(tmp_path))
    tables = root_with_rows(tmp_path)
    with ReadModel(tables) as model:
        assert (counted(model, TABLE), counted(model, OTHER)) == (10, 10)
        for seq in range(10, 20):
            append_rows(tables, TABLE, [small_row(TABLE) | {"seq": seq}])
        maintain(tables, TABLE, Limits())  # ten rows in a file
        before = DeltaTable(tables / TABLE).version()
        spark.sql(f"ALTER TABLE delta.`{tables / TABLE}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        spark.sql(f"DELETE FROM delta.`{tables / TABLE}` WHERE seq < 5")
        version = DeltaTable(tables / TABLE).version()

        assert model.refresh()
        for query in (f"SELECT count(*) FROM {TABLE}", "SELECT * FROM current_queues", f"SELECT seq FROM {TABLE} t"):
            with pytest.raises(UserError, match=DELETED):
                model.ask(query)
        with pytest.raises(UserError, match=DELETED):
            model.span(TABLE)
        assert counted(model, OTHER) == 10
    with duckdb.connect() as connection:
        register(connection, tables)
        assert connection.execute(f"SELECT count(*) FROM {OTHER}").fetchall() == [(10,)]
        with pytest.raises(duckdb.Error, match=DELETED):
            connection.execute("SELECT 1 FROM queues_at(TIMESTAMPTZ '2030-01-01 00:00:00Z') WHERE queue_id = 1")
    for write in writes(tables):
        with pytest.raises(UserError, match=DELETED):
            write()
    ran = CliRunner().invoke(main.app, ["maintain"])
    assert isinstance(ran.exception, UserError)
    assert str(ran.exception).startswith(f"The table {TABLE} has")
    assert DeltaTable(tables / TABLE).version() == version
    assert len(DeltaTable(tables / OTHER).file_uris()) == 1  # merged

    DeltaTable(tables / TABLE).restore(before, protocol_downgrade_allowed=True)
    with claimed(tmp_path / "checkpoints", tables, BASIS):
        append_rows(tables, TABLE, [small_row(TABLE) | {"seq": 20}])
    maintain(tables, TABLE, Limits(replaced_ms=0))
    with ReadModel(tables) as model:
        assert sorted(row["seq"] for row in model.rows(f"SELECT t.seq FROM {TABLE} t")) == list(range(21))


WRITER: dict[str, tuple[dict[str, object], dict[str, str]]] = {
    "rowTracking": ({"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]}, {}),
    "inCommitTimestamp": ({"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}, {}),
    "columnMapping": ({"minReaderVersion": 1, "minWriterVersion": 6}, {}),
    "delta.appendOnly": ({"minReaderVersion": 1, "minWriterVersion": 2}, {"delta.appendOnly": "true"}),
    "constraint positive": ({"minReaderVersion": 1, "minWriterVersion": 3}, {"delta.constraints.positive": "seq > 0"}),
}


@pytest.mark.parametrize("feature", READER)
def test_a_table_that_is_read_only_with_more_knowledge_is_refused(tmp_path, feature):
    tables = root_with_rows(tmp_path)
    sizes = Sizes(tables)
    assert sized(sizes) >= {TABLE, OTHER}
    raise_protocol(tables / TABLE, READER[feature])
    assert (TABLE in sized(sizes), OTHER in sized(sizes)) == (False, True)
    with ReadModel(tables) as model:
        with pytest.raises(UserError, match=rf"The table {TABLE} has the Delta feature {feature}, .* not read it"):
            counted(model, TABLE)
        assert counted(model, OTHER) == 10
    for write in writes(tables):
        with pytest.raises(UserError, match=rf"{TABLE} has the Delta feature {feature}, .*RESTORE TABLE delta"):
            write()


@pytest.mark.parametrize("what", WRITER)
def test_a_table_that_is_written_only_with_more_knowledge_is_still_read(tmp_path, what):
    tables = root_with_rows(tmp_path)
    protocol, properties = WRITER[what]
    raise_protocol(tables / TABLE, protocol, properties)
    version = DeltaTable(tables / TABLE).version()
    with ReadModel(tables) as model:
        assert counted(model, TABLE) == 10
    for write in writes(tables):
        with pytest.raises(UserError, match=rf"The table {TABLE} has the .*{what}, .* not write it"):
            write()
    assert DeltaTable(tables / TABLE).version() == version


def test_a_table_with_features_that_are_handled_is_read_and_written(tmp_path):
    tables = root_with_rows(tmp_path)
    listed = sorted(READ.keys() & WRITTEN.keys())
    raise_protocol(tables / TABLE, LISTED | {"readerFeatures": listed, "writerFeatures": sorted(WRITTEN)})
    append(tables / TABLE, pa.Table.from_pylist([small_row(TABLE)], arrow_schema(TABLE)))
    assert maintain(tables, TABLE, Limits()).merged == 11
    with ReadModel(tables) as model:
        assert counted(model, TABLE) == 11
