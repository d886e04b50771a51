"""Run custom SQL queries."""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

import pyarrow as pa

from streaming.base.times import iso
from streaming.queries.results import SqlResult
from streaming.tables.hints import list_warning
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
    answer = model.ask(query, limit=limit)
    columns = [[_plain(value) for value in column.to_pylist()] for column in answer.table.columns]
    durations = tuple(field.name for field in answer.table.schema if pa.types.is_interval(field.type))
    return SqlResult(
        columns=tuple(answer.table.column_names), rows=tuple(zip(*columns, strict=True)), cut=answer.cut,
        durations=durations, warnings=tuple(filter(None, [list_warning(query)])),
    )  # fmt: skip


def _plain(value: object) -> object:
    """Convert a value to JSON types: times to ISO 8601, decimals to numbers, NaN and infinity to None."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, pa.MonthDayNano):  # a tuple, too
        return _iso_duration(value)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    convert = _CONVERT.get(type(value))
    return value if convert is None else convert(value)


def _iso_duration(value: pa.MonthDayNano) -> str:
    """Format an interval by ISO 8601, such as ``P1M2DT3H4M5.5S``; a negative one begins with a minus."""
    parts = value.months, value.days, value.nanoseconds
    if all(part <= 0 for part in parts) and any(parts):
        return "-" + _iso_duration(pa.MonthDayNano([-part for part in parts]))
    seconds, nanos = divmod(abs(value.nanoseconds), 1_000_000_000)
    sign = "-" if value.nanoseconds < 0 else ""
    hours, minutes, rest = seconds // 3600, seconds % 3600 // 60, f"{seconds % 60}.{nanos:09}".rstrip("0").rstrip(".")
    date_part = "".join(f"{number}{unit}" for number, unit in ((value.months, "M"), (value.days, "D")) if number)
    clock = ((hours, "H"), (minutes, "M"), (rest, "S"))
    time_part = "".join(f"{sign}{number}{unit}" for number, unit in clock if number not in {0, "0"})
    if not date_part and not time_part:
        return "PT0S"
    return f"P{date_part}{'T' + time_part if time_part else ''}"


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
