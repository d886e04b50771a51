"""Arrow schemas of the tables, and conversion of times.

A table has timestamps in microseconds, UTC, as Delta requires; the program uses epoch milliseconds. Both conversions
are here: `table_of` and `table_of_json` for writing to a table, `in_epoch_ms` for reading from it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa

from schemas.tables import ColumnType, ListOf, StructOf, TableColumn, columns

_STORED = pa.timestamp("us", "UTC")
_IN_MS = pa.timestamp("ms", "UTC")
_DAY = "date"
_BLOCK_BYTES = 2**20
"""Arrow reads JSON in blocks, several at the same time; one must hold a row."""
_SCALARS: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "timestamp": _STORED,
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
}
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def arrow_schema(table: str) -> pa.Schema:
    """Return the schema of a table, from which Spark's is made, too (pyspark's `from_arrow_schema`).

    Columns that are never null are NOT NULL, so Delta refuses a row that lacks one. Inside lists and structs all
    fields may be null: Delta has no NOT NULL there.

    Raises:
        KeyError: the table does not exist.
    """
    return pa.schema([_field(column, nullable=column.nullable) for column in columns(table)])


def table_of(table: str, rows: Iterable[Mapping[str, object]]) -> pa.Table:
    """Return rows of a table, whose times are epoch milliseconds, in its schema.

    Raises:
        KeyError: the table does not exist.
    """
    schema = arrow_schema(table)
    return pa.Table.from_pylist(list(rows), _schema_with_times(schema, _IN_MS)).cast(schema)


def table_of_json(table: str, lines: bytes | bytearray) -> pa.Table:
    """Return derived rows of a table, each a line of JSON, in its schema; a column ``date`` is the UTC day of ``time``.

    Arrow reads them without an object of Python for each value, which takes rows with many arrays, as those of
    `queue_progress`, a sixth of the time.

    Raises:
        KeyError: the table does not exist.
        pa.ArrowInvalid: a row does not fit its schema.
    """
    from pyarrow import json

    schema = arrow_schema(table)
    sent = pa.schema([field for field in schema if field.name != _DAY])
    longest = max(map(len, lines.split(b"\n"))) if len(lines) > _BLOCK_BYTES else 0
    rows = json.read_json(
        pa.BufferReader(lines),
        json.ReadOptions(block_size=max(_BLOCK_BYTES, 1 + longest)),
        json.ParseOptions(explicit_schema=_schema_with_times(sent, pa.int64()), unexpected_field_behavior="error"),
    ).cast(_schema_with_times(sent, _IN_MS))
    if _DAY in schema.names:
        rows = rows.add_column(schema.get_field_index(_DAY), schema.field(_DAY), rows["time"].cast(pa.date32()))
    return rows.cast(schema)


def column_of(values: pa.Array | Sequence[object], type_: pa.DataType) -> pa.Array:
    """Return one column of a type; times in the values are epoch milliseconds."""
    in_ms = _with_times(type_, _IN_MS)
    array = values.cast(in_ms) if isinstance(values, pa.Array) else pa.array(values, in_ms)
    return array.cast(type_)


def in_epoch_ms(rows: Rows) -> Rows:
    """Return rows with epoch milliseconds (int64) for timestamps, inside lists and structs too."""
    if _schema_with_times(rows.schema, pa.null()) == rows.schema:
        return rows
    in_ms, as_int = (_schema_with_times(rows.schema, leaf) for leaf in (_IN_MS, pa.int64()))
    return rows.cast(in_ms, safe=False).cast(as_int)


def _schema_with_times(schema: pa.Schema, leaf: pa.DataType) -> pa.Schema:
    return pa.schema([field.with_type(_with_times(field.type, leaf)) for field in schema])


def _with_times(type_: pa.DataType, leaf: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return leaf
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_with_times(type_.value_type, leaf)))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_with_times(field.type, leaf)) for field in type_])
    return type_


def _field(column: TableColumn, *, nullable: bool) -> pa.Field:
    return pa.field(column.name, _type(column.type), nullable)


def _type(declared: ColumnType) -> pa.DataType:
    if isinstance(declared, ListOf):
        return pa.list_(_type(declared.element))
    if isinstance(declared, StructOf):
        return pa.struct([_field(column, nullable=True) for column in declared.columns])
    return _SCALARS[declared]
