"""Arrow schemas of the tables, for readers and writers without Spark."""

import pyarrow as pa

from schemas.columns import Column, ColumnType, ListOf, StructOf
from schemas.tables import columns

_SCALARS: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
}


def arrow_schema(table: str) -> pa.Schema:
    """Return the schema of a table; nullability as in `schemas.spark`.

    Raises:
        KeyError: the table does not exist.
    """
    return pa.schema([_field(column, nullable=column.nullable) for column in columns(table)])


def _field(column: Column, *, nullable: bool) -> pa.Field:
    return pa.field(column.name, _type(column.type), nullable)


def _type(declared: ColumnType) -> pa.DataType:
    if isinstance(declared, ListOf):
        return pa.list_(_type(declared.element))
    if isinstance(declared, StructOf):
        return pa.struct([_field(column, nullable=True) for column in declared.columns])
    return _SCALARS[declared]
