"""Convert a msgspec type to columns: the step that the Spark and the Arrow schemas share.

str and Literal become string, int long, `Time` timestamp, bool boolean, bytes binary, date date; ``X | None`` may be
null; ``tuple[X, ...]`` becomes a list, whose elements may be null, and a Struct a struct. Any other type is an error
here, at import, not in a sink.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec import inspect

Scalar = Literal["string", "long", "timestamp", "boolean", "binary", "date"]


@dataclass(frozen=True)
class ListOf:
    """A list of one type."""

    element: "ColumnType"


@dataclass(frozen=True)
class StructOf:
    """A struct inside a row."""

    columns: tuple["TableColumn", ...]


ColumnType = Scalar | ListOf | StructOf


@dataclass(frozen=True)
class TableColumn:
    """One column of a table, or one field of a struct."""

    name: str
    type: ColumnType
    nullable: bool


_SCALARS: dict[type[inspect.Type], Scalar] = {
    inspect.StrType: "string",
    inspect.LiteralType: "string",
    inspect.IntType: "long",
    inspect.BoolType: "boolean",
    inspect.BytesType: "binary",
    inspect.DateType: "date",
}


def columns_of(row: type[msgspec.Struct]) -> tuple[TableColumn, ...]:
    """Return the columns of a row type, in the order of its fields.

    Raises:
        TypeError: a field's type has no column type.
    """
    info = inspect.type_info(row)
    if not isinstance(info, inspect.StructType):
        msg = f"{row} is not a msgspec Struct"
        raise TypeError(msg)
    return _columns(info)


def _columns(struct: inspect.StructType) -> tuple[TableColumn, ...]:
    return tuple(_column(field.encode_name, field.type) for field in struct.fields)


def _column(name: str, declared: inspect.Type) -> TableColumn:
    known = _not_null(name, declared)
    return TableColumn(name, _type(name, known), nullable=known is not declared)


def _not_null(name: str, declared: inspect.Type) -> inspect.Type:
    """Return the type of the values that are not null."""
    if not isinstance(declared, inspect.UnionType):
        return declared
    members = [member for member in declared.types if not isinstance(member, inspect.NoneType)]
    if len(members) != 1:
        msg = f"column {name} has more than one type"
        raise TypeError(msg)
    return members[0]


def _type(name: str, declared: inspect.Type) -> ColumnType:
    if isinstance(declared, inspect.VarTupleType | inspect.ListType):
        return ListOf(_type(name, _not_null(name, declared.item_type)))
    if isinstance(declared, inspect.StructType):
        return StructOf(_columns(declared))
    scalar = _SCALARS.get(type(declared))
    if isinstance(declared, inspect.Metadata):
        scalar = (declared.extra or {}).get("column")
    if scalar is None:
        msg = f"column {name} has a type without a column type: {declared}"
        raise TypeError(msg)
    return scalar
