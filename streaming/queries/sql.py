"""Run custom SQL queries."""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from streaming.base.times import iso
from streaming.queries.results import SqlResult
from streaming.tables.reader import ANSWER_ROWS, ReadModel


def sql(model: ReadModel, query: str, *, limit: int = ANSWER_ROWS) -> SqlResult:
    """Run one SELECT over tables, views and functions; `sql_process` limits its time and memory.

    Args:
        model: the tables.
        query: a query in DuckDB's SQL.
        limit: the maximum number of rows.

    Raises:
        UserError: see `ReadModel.ask`.
    """
    found = model.ask(query, limit=limit)
    columns = [[_plain(value) for value in column.to_pylist()] for column in found.table.columns]
    return SqlResult(columns=tuple(found.table.column_names), rows=tuple(zip(*columns, strict=True)), cut=found.cut)


def _plain(value: object) -> object:
    """Convert a value to JSON types: times to ISO 8601, decimals to numbers, NaN and infinity to None."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    convert = _CONVERT.get(type(value))
    return value if convert is None else convert(value)


_CONVERT: dict[type, Callable[[Any], object]] = {
    Decimal: lambda value: int(value) if value == value.to_integral_value() else float(value),
    float: lambda value: value if isfinite(value) else None,
    bytes: bytes.hex,
    datetime: iso,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: str,
    UUID: str,
}
