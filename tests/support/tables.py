"""Delta tables as a job leaves them, made without Spark, for tests of their readers."""

import datetime as dt
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from rebalance_model.observe.effects import TABLE_OF, AnyRow
from schemas.arrow import arrow_schema, in_epoch_ms, table_of
from schemas.tables import PARTITIONED_BY, TABLES
from streaming.pipeline.archive_rows import LogRow, Transport, archived
from streaming.tables.reader import ReadModel, Row


def make_tables(folder: Path) -> Path:
    """Create every table, empty: as copies, which take a tenth of the time, and have equal ids."""
    return copytree(_empty_tables().name, folder, dirs_exist_ok=True)


def create_tables(folder: Path) -> Path:
    """Create every table, empty, each with an id of its own."""
    for table in TABLES:
        DeltaTable.create(folder / table, arrow_schema(table), partition_by=PARTITIONED_BY.get(table))
    return folder


@cache
def _empty_tables() -> TemporaryDirectory[str]:
    """Return a folder with every table; it is removed with this process."""
    folder = TemporaryDirectory(prefix="empty-tables-")
    create_tables(Path(folder.name))
    return folder


def append_rows(folder: Path, table: str, rows: Iterable[Mapping[str, object]]) -> None:
    """Append rows to a table, in one commit."""
    write_deltalake(folder / table, table_of(table, rows), mode="append")


def read_rows(folder: Path, table: str) -> list[dict[str, object]]:
    """Return all rows of a table, unordered; times are epoch milliseconds."""
    return rows_in(DeltaTable(folder / table))


def rows_in(table: DeltaTable) -> list[dict[str, object]]:
    """Return all rows of a table, wherever it is, unordered; times are epoch milliseconds."""
    return in_epoch_ms(pa.table(table.scan())).to_pylist()


def has_rows(folder: Path, sizes: Mapping[str, int]) -> bool:
    """Return whether each table has so many rows, or more; by its log, which names the number for each file."""
    return all(DeltaTable(folder / table).count() >= size for table, size in sizes.items())


def selected(model: ReadModel, relation: str, group: str | None = None) -> list[Row]:
    """Return the rows of a table or view, of one group or of all, sorted by their columns."""
    query = f"SELECT * FROM {relation} t WHERE $group IS NULL OR t.group = $group ORDER BY ALL"
    return model.rows(query, {"group": group})


def stored(table: str, row: dict[str, object]) -> dict[str, object]:
    """Add the partition column to a derived row: the UTC day of its ``time``."""
    if "date" not in PARTITIONED_BY.get(table, ()):
        return row
    time = row["time"]
    assert isinstance(time, int)
    return row | {"date": dt.datetime.fromtimestamp(time // 1000, dt.UTC).date()}


def append(folder: Path, effects: Iterable[AnyRow]) -> None:
    """Append effects as the job does: one commit for each table that has any, evidence first."""
    batch = list(effects)
    for kind, table in TABLE_OF.items():
        if rows := [stored(table, msgspec.to_builtins(effect)) for effect in batch if type(effect) is kind]:
            append_rows(folder, table, rows)


def accepted(log: Iterable[LogRow]) -> list[dict[str, object]]:
    """Return the archive's rows for rows of a file log."""
    (batch,) = archived([pa.RecordBatch.from_pylist([row._asdict() for row in log])], Transport(None))
    return in_epoch_ms(batch).column("accepted").to_pylist()


def archive(folder: Path, log: Iterable[LogRow]) -> None:
    """Archive rows of a file log, in one commit."""
    append_rows(folder, "telemetry", accepted(log))


def small_row(table: str) -> dict[str, object]:
    """Return a row with a short value in each column."""
    kinds = {field.name: field.type for field in arrow_schema(table) if field.name != "date"}
    number = pa.types.is_integer, pa.types.is_timestamp
    return {
        name: []
        if pa.types.is_list(kind)
        else True
        if pa.types.is_boolean(kind)
        else 1
        if any(is_kind(kind) for is_kind in number)
        else "x"
        for name, kind in kinds.items()
    }
