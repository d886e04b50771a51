"""The Parquet files of a Delta table's snapshot, and the SELECT with which DuckDB reads them.

DuckDB reads Parquet itself: it skips row groups by their statistics and reads only the requested columns. It does not
read the Delta log, which lists the files of a version and has the values of the partition columns (they are not in the
files). It also does not know that a file of an older release may lack a column.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from arro3.core import DataType
from deltalake import DeltaTable

from schemas.tables import ADDED, PARTITIONED_BY, TABLES, ColumnType, ListOf, StructOf, columns
from streaming.base.place import Place
from streaming.base.times import written
from streaming.tables.delta import is_delta_at

_TYPES = {
    "string": "VARCHAR",
    "long": "BIGINT",
    "timestamp": "TIMESTAMPTZ",
    "boolean": "BOOLEAN",
    "binary": "BLOB",
    "date": "DATE",
}
_SCHEMA = "MAP(VARCHAR, STRUCT(name VARCHAR, type VARCHAR, default_value VARCHAR))"
_DAY_LENGTH = len("2025-01-31")
_STORED = DataType.timestamp("us", tz="UTC")


class File(NamedTuple):
    """One file of a snapshot."""

    path: str
    """The path in the log: relative to the table, and URL-encoded."""
    size: int
    rows: int = 0
    """0 if the log has no statistics."""
    begins: int = 0
    """The earliest ``time`` of its rows; 0 if the table has no such column, or the log no statistics."""
    ends: int = 0
    """The latest ``time`` of its rows; 0 as for `begins`."""
    partition: tuple[str, ...] = ()
    """The values of the table's partition columns."""
    written: int = 0
    """When it was written, epoch milliseconds."""


def are_complete(tables: Place) -> bool:
    """Return whether the folder has every table that readers need; the job creates them one after the other."""
    return all(is_delta_at(tables / table) for table in TABLES if table not in ADDED)


def files_of(table: str, snapshot: DeltaTable) -> list[File]:
    """Return the files of a snapshot."""
    actions = snapshot.get_add_actions(flatten=True)
    partition_columns = [f"partition.{name}" for name in PARTITIONED_BY.get(table, ())]
    count, names = actions.num_rows, frozenset(actions.column_names)

    def column(name: str) -> list[Any]:
        return list(actions[name].to_pylist()) if name in names else [None] * count

    def times(name: str) -> list[int | None]:
        if name not in names:
            return [None] * count
        in_us = actions[name].cast(_STORED).cast(DataType.int64()).to_pylist()
        return [None if us is None else us // 1_000 for us in in_us]

    partitions = zip(*(map(str, column(name)) for name in partition_columns), strict=True)
    return [
        File(path, size, records or 0, begins or 0, ends or 0, partition, written or 0)
        for path, size, records, begins, ends, partition, written in zip(
            column("path"), column("size_bytes"), column("num_records"), times("min.time"), times("max.time"),
            partitions if table in PARTITIONED_BY else [()] * count, column("modification_time"), strict=True,
        )
    ]  # fmt: skip


def select(table: str, folder: Path, files: Iterable[File]) -> str:
    """Return the SELECT of the rows of files, in the columns of the table's contract.

    One scan reads them all, because planning each scan of a view takes DuckDB 3 ms in every query. The values of the
    partition columns are extracted from the paths, where Spark and delta-rs put them; a condition on one skips files.
    They are extracted by position: DuckDB does it for each file of each scan when it plans a query, and splitting the
    path at its slashes took a third of the planning time. The schema is one literal: as an expression of as many parts
    it took most of the planning time.
    """
    of_path = PARTITIONED_BY.get(table, ())
    paths = ", ".join(literal(f"{folder}/{unquote(file.path)}") for file in files)
    if not paths:
        nothing = ", ".join(f"CAST(NULL AS {_type(c.type)}) AS {_name(c.name)}" for c in columns(table))
        return f"SELECT {nothing} WHERE false"
    names = ", ".join(
        f"CAST({_day_in_path(folder, c.name)} AS {_type(c.type)}) AS {_name(c.name)}"
        if c.name in of_path else _name(c.name)
        for c in columns(table)
    )  # fmt: skip
    schema = ", ".join(
        f"{c.name}={{name: {c.name}, type: {_quoted(_type(c.type))}, default_value: NULL}}"
        for c in columns(table)
        if c.name not in of_path
    )
    options = f"schema = CAST({literal('{' + schema + '}')} AS {_SCHEMA})" + (", filename = true" if of_path else "")
    return f"SELECT {names} FROM read_parquet([{paths}], {options})"  # noqa: S608  quoted


def refuse(table: str, why: str) -> str:
    """Return a SELECT in place of the table's rows that fails with a sentence, whatever a query needs of it."""
    error = f"error({literal(why)})"
    names = ", ".join(f"CAST({error} AS {_type(c.type)}) AS {_name(c.name)}" for c in columns(table))
    return f"SELECT {names} FROM (SELECT {error} AS why) WHERE why IS NOT NULL"  # noqa: S608  quoted


def literal(text: str) -> str:
    """Return a string as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def delta_time(time_ms: int) -> str:
    """Return an instant (epoch milliseconds) as SQL for a predicate of deltalake, which uses DataFusion."""
    return f"arrow_cast('{written(time_ms)}', 'Timestamp(Microsecond, Some(\"UTC\"))')"


def _day_in_path(folder: Path, column: str) -> str:
    """Return the SQL for the day of a partition: the value in the name of the first folder, ``column=value``."""
    return f"substring(filename, {len(f'{folder}/{column}=') + 1}, {_DAY_LENGTH})"


def _name(name: str) -> str:
    return '"' + name + '"'


def _quoted(text: str) -> str:
    """Return a text as a part of a nested value that is written as a string."""
    return '"' + text.replace('"', '\\"') + '"'


def _type(declared: ColumnType) -> str:
    if isinstance(declared, ListOf):
        return f"{_type(declared.element)}[]"
    if isinstance(declared, StructOf):
        return f"STRUCT({', '.join(f'{_name(c.name)} {_type(c.type)}' for c in declared.columns)})"
    return _TYPES[declared]
