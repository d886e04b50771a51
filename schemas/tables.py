"""Every table and its columns, by its msgspec type; `schemas.arrow` converts them for the engines.

str and Literal become string, int long, `Time` timestamp, bool boolean, bytes binary, date date; ``X | None`` may be
null; ``tuple[X, ...]`` becomes a list, whose elements may be null, and a Struct a struct. Any other type is an error
here, at import, not in a sink.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec import inspect

from rebalance_model.observe.effects import TABLE_OF, QueueProgress
from schemas.rows import (
    AlertControl,
    AlertDelivery,
    OperatorAction,
    QualityResult,
    QueueProgressRollup,
    QueueProgressRow,
    RejectedRow,
    TelemetryRow,
)

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
        raise TypeError(f"{row} is not a msgspec Struct")
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
        raise TypeError(f"column {name} has more than one type")
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
        raise TypeError(f"column {name} has a type without a column type: {declared}")
    return scalar


DERIVED: dict[str, type[msgspec.Struct]] = {
    table: QueueProgressRow if row is QueueProgress else row for row, table in TABLE_OF.items()
}
"""The tables of the observer's effects, in the order in which a batch appends to them."""

ROWS: dict[str, type[msgspec.Struct]] = {
    **DERIVED,
    "queue_progress_minute": QueueProgressRollup,
    "queue_progress_5min": QueueProgressRollup,
    "telemetry": TelemetryRow,
    "telemetry_rejected": RejectedRow,
    "quality_results": QualityResult,
    "alert_deliveries": AlertDelivery,
    "alert_controls": AlertControl,
    "operator_actions": OperatorAction,
}
"""The row type of every table."""

TABLES: tuple[str, ...] = tuple(ROWS)

ADDED: frozenset[str] = frozenset({"operator_actions"})
"""Tables that the tables of a former release lack: the job creates them at its next start, and until then readers take
them for empty."""

PARTITIONED_BY: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("telemetry", "queue_progress", "queue_progress_minute", "queue_progress_5min"), ("date",)
)
"""Only tables that grow large are partitioned: each partition costs a file in every batch."""

_COLUMNS = {table: columns_of(row) for table, row in ROWS.items()}


def columns(table: str) -> tuple[TableColumn, ...]:
    """Return the columns of a table, in order.

    Raises:
        KeyError: the table does not exist.
    """
    return _COLUMNS[table]
