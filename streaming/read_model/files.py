"""The Parquet files of a Delta table's snapshot, and the SELECT with which DuckDB reads them.

DuckDB reads Parquet itself: it skips row groups by their statistics and reads the wanted columns only. What it does not
know is the Delta log: which files make up a version, the values of the partition columns (they are not in the files),
and that a file of an older release may lack a column.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from schemas.columns import ColumnType, ListOf, StructOf
from schemas.tables import PARTITIONED_BY, columns

_TYPES = {"string": "VARCHAR", "long": "BIGINT", "boolean": "BOOLEAN", "binary": "BLOB", "date": "DATE"}


class File(NamedTuple):
    """One file of a snapshot."""

    path: str
    """As the log has it: relative to the table, and URL-encoded."""
    size: int
    rows: int
    begins: int
    """The earliest ``time`` of its rows; 0 where the table has none, or the log does not say."""
    partition: tuple[str, ...]
    """The values of the table's partition columns."""


def folder_of(snapshot: DeltaTable) -> Path:
    """Where a table is: Delta gives the folder as an address, URL-encoded."""
    return Path(unquote(snapshot.table_uri.removeprefix("file://")))


def files_of(table: str, snapshot: DeltaTable) -> list[File]:
    """What a snapshot consists of."""
    actions = pa.table(snapshot.get_add_actions(flatten=True))
    count = len(actions)

    def column(name: str) -> list[Any]:
        return actions.column(name).to_pylist() if name in actions.column_names else [None] * count

    partitions = zip(*(map(str, column(f"partition.{name}")) for name in PARTITIONED_BY.get(table, ())), strict=True)
    return [
        File(path, size, rows or 0, begins or 0, partition)
        for path, size, rows, begins, partition in zip(
            column("path"), column("size_bytes"), column("num_records"), column("min.time"),
            partitions if table in PARTITIONED_BY else [()] * count, strict=True,
        )
    ]  # fmt: skip


def select(table: str, folder: Path, files: Iterable[File]) -> str:
    """The rows of files, in the columns that the contract gives the table.

    One scan reads them all: DuckDB takes 3 ms to look at each scan of a view, whenever it is asked. The values of the
    partition columns are read off the paths, where Spark and delta-rs put them; a condition on one leaves files out.
    """
    of_path = PARTITIONED_BY.get(table, ())
    paths = ", ".join(literal(f"{folder}/{unquote(file.path)}") for file in files)
    if not paths:
        nothing = ", ".join(f"CAST(NULL AS {_type(c.type)}) AS {_name(c.name)}" for c in columns(table))
        return f"SELECT {nothing} WHERE false"
    names = ", ".join(
        f"CAST(regexp_extract(filename, '.*/{c.name}=([^/]*)/', 1) AS {_type(c.type)}) AS {_name(c.name)}"
        if c.name in of_path else _name(c.name)
        for c in columns(table)
    )  # fmt: skip
    schema = ", ".join(
        f"{literal(c.name)}: {{name: {literal(c.name)}, type: {literal(_type(c.type))}, default_value: NULL::VARCHAR}}"
        for c in columns(table)
        if c.name not in of_path
    )
    filename = ", filename = true" if of_path else ""
    return f"SELECT {names} FROM read_parquet([{paths}], schema = MAP {{{schema}}}{filename})"  # noqa: S608  quoted


def literal(text: str) -> str:
    """A string in SQL."""
    return "'" + text.replace("'", "''") + "'"


def _name(name: str) -> str:
    return '"' + name + '"'


def _type(declared: ColumnType) -> str:
    if isinstance(declared, ListOf):
        return f"{_type(declared.element)}[]"
    if isinstance(declared, StructOf):
        return f"STRUCT({', '.join(f'{_name(c.name)} {_type(c.type)}' for c in declared.columns)})"
    return _TYPES[declared]
