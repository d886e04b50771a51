"""Delta tables made without Spark: what a job leaves, for the tests of what reads them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from rebalance_model.observe.effects import TABLE_OF, AnyRow
from schemas.arrow import arrow_schema, in_epoch_ms, table_of
from schemas.tables import PARTITIONED_BY, TABLES, stored
from streaming.pipeline.archive_rows import LogRow, Transport, archived
from streaming.tables.reader import ReadModel, Row


def make_tables(folder: Path) -> Path:
    """Every table, empty."""
    for table in TABLES:
        DeltaTable.create(folder / table, arrow_schema(table), partition_by=PARTITIONED_BY.get(table))
    return folder


def append_rows(folder: Path, table: str, rows: Iterable[Mapping[str, object]]) -> None:
    """Append to a table, in one commit."""
    write_deltalake(folder / table, table_of(table, rows), mode="append")


def read_rows(folder: Path, table: str) -> list[dict[str, object]]:
    """All rows of a table, in no order; times are epoch milliseconds."""
    return in_epoch_ms(pa.table(DeltaTable(folder / table).scan())).to_pylist()


def selected(model: ReadModel, relation: str, group: str | None = None) -> list[Row]:
    """The rows of a table or view, of one group or of all, in the order of its columns."""
    query = f"SELECT * FROM {relation} t WHERE $group IS NULL OR t.group = $group ORDER BY ALL"
    return model.rows(query, {"group": group})


def append(folder: Path, effects: Iterable[AnyRow]) -> None:
    """What the job does with a batch's effects: a commit of each table that has any, evidence first."""
    told = list(effects)
    for kind, table in TABLE_OF.items():
        if rows := [stored(table, msgspec.to_builtins(effect)) for effect in told if type(effect) is kind]:
            append_rows(folder, table, rows)


def accepted(log: Iterable[LogRow]) -> list[dict[str, object]]:
    """What the archive keeps of rows of a file log."""
    (batch,) = archived([pa.RecordBatch.from_pylist([row._asdict() for row in log])], Transport(None))
    return in_epoch_ms(batch).column("accepted").to_pylist()


def archive(folder: Path, log: Iterable[LogRow]) -> None:
    """Archive rows of a file log, in one commit."""
    append_rows(folder, "telemetry", accepted(log))
