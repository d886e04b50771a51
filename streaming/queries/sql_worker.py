"""The process in which users' own SQL runs: it opens the tables, and answers one query after the other.

It gets the tables, and then each query, over the connection that is its first argument. It sends two messages in turn:
the name of an error, or nothing, how many rows the answer has, and whether the process ends now; then the text of the
error, or the answer as JSON.
"""

import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from importlib import import_module
from math import isfinite
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple
from uuid import UUID

import pyarrow as pa
from pydantic_core import to_json

from streaming.base.errors import UserError, first_line
from streaming.base.language import gettext, in_language
from streaming.base.limits import SQL_ANSWER_BYTES, SQL_MEMORY_BYTES
from streaming.base.place import Place
from streaming.base.times import iso
from streaming.tables.guard import list_warning
from streaming.tables.reader import ANSWER_ROWS, ReadModel


class Result(NamedTuple):
    """A `SqlResult`, whose module takes longer to import than most queries take."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    cut: bool
    durations: tuple[str, ...]
    warnings: tuple[str, ...]


def sql(model: ReadModel, query: str, *, limit: int = ANSWER_ROWS) -> Result:
    """Run one SELECT over tables, views and functions; `sql_process` limits its time and memory.

    Raises:
        UserError: see `ReadModel.ask`.
    """
    answer = model.ask(query, limit=limit)
    columns = [[_plain(value) for value in _values(column)] for column in answer.table.columns]
    durations = tuple(field.name for field in answer.table.schema if pa.types.is_interval(field.type))
    return Result(
        columns=tuple(answer.table.column_names), rows=tuple(zip(*columns, strict=True)), cut=answer.cut,
        durations=durations, warnings=tuple(filter(None, [list_warning(query)])),
    )  # fmt: skip


_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_TIME: Final = pa.timestamp("us", tz="UTC")


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; by itself pyarrow imports pandas for a time, or numpy for a cast."""
    if column.type != _TIME:
        return list(column.to_pylist())
    values = (us for chunk in column.chunks for us in chunk.view(pa.int64()).to_pylist())
    return [None if us is None else _EPOCH + timedelta(microseconds=us) for us in values]


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


_ORPHAN_SECONDS: Final = 1.0
"""A query whose asker was killed ends by itself so much later than it would have been ended."""
_REFRESH_SECONDS: Final = 1.0


class Worker:
    """Answers queries until the other side closes the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._begin = 0
        """Bytes of data without a query; 0: unknown."""
        self._is_lasting = False
        """True if the process follows the tables between queries."""
        self._refreshed = 0.0
        self._is_last = False
        """True if the process ends after what it has sent last."""

    def serve(self, spill: Path) -> None:
        """Open the tables and answer queries."""
        tables: Place
        tables, self._is_lasting = self._connection.recv()
        if self._is_lasting:
            with suppress(ImportError):
                import_module("pandas")  # pyarrow does so for the first timestamp: half a second
        try:
            model = ReadModel(tables, spill=spill, once=not self._is_lasting)
        except UserError as error:
            self._is_last = True
            self._fail(error)
            return
        except Exception as error:  # noqa: BLE001  whatever it is, the process that asks must hear of it
            self._is_last = True
            said = first_line(error) or type(error).__name__
            self._fail(UserError(gettext("The tables can't be opened: {error}", error=f"{said}.")))
            return
        with model:
            if self._is_lasting:
                self._refresh(model)
            self._limit_memory()
            self._send("", b"")
            while not self._is_last:
                while self._is_lasting and not self._connection.poll(_REFRESH_SECONDS):
                    self._refresh(model)
                self._answer(model, *self._connection.recv())

    def _answer(self, model: ReadModel, query: str, timeout_s: float, limit: int, language: str) -> None:
        # If nobody is left to end this process, the kernel does.
        signal.setitimer(signal.ITIMER_REAL, timeout_s + _ORPHAN_SECONDS)
        with in_language(language):
            try:
                if self._is_lasting and monotonic() - self._refreshed > _REFRESH_SECONDS:
                    self._refresh(model)
                self._send("", *_encoded_answer(model, query, limit))
            except UserError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001  such as MemoryError: whatever it is, the query caused it
                said = first_line(error) or type(error).__name__
                self._fail(UserError(gettext("The query failed: {error}", error=f"{said}.")))
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _refresh(self, model: ReadModel) -> None:
        model.refresh()
        self._refreshed = monotonic()

    def _fail(self, error: UserError) -> None:
        self._send(type(error).__name__, str(error).encode("utf-8", "replace"))

    def _send(self, kind: str, content: bytes, rows: int = 0) -> None:
        self._is_last |= not self._has_memory()
        self._connection.send_bytes(f"{kind},{rows},{'last' if self._is_last else ''}".encode())
        self._connection.send_bytes(content)

    def _limit_memory(self) -> None:
        """Let the process allocate no more than `SQL_MEMORY_BYTES` beyond what the open tables take."""
        self._begin = _data_bytes()
        most = self._begin + SQL_MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))

    def _has_memory(self) -> bool:
        """Return whether enough is left for the next query: what a query has freed is mostly kept for the next one."""
        return not self._begin or _data_bytes() - self._begin < SQL_MEMORY_BYTES / 4


def _encoded_answer(model: ReadModel, query: str, limit: int) -> tuple[bytes, int]:
    """Return the answer as JSON, and how many rows it has."""
    try:
        result = sql(model, query, limit=limit)
        answer = to_json(result._asdict())
    except (RecursionError, ValueError):  # ValueError: pydantic, from another depth
        raise UserError(gettext("The result nests too deeply: unnest its lists and structs.")) from None
    if len(answer) > SQL_ANSWER_BYTES:
        raise UserError(
            gettext(
                "The result has {n} MB, the limit is {limit}: select fewer columns or rows.",
                n=f"{len(answer) / 1e6:,.0f}",
                limit=f"{SQL_ANSWER_BYTES / 1e6:,.0f}",
            )
        )
    return answer, len(result.rows)


def _data_bytes() -> int:
    """Return the size of the data of this process, as RLIMIT_DATA limits it."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()


def main() -> None:
    """Serve on the connection whose file descriptor is the first argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    descriptor, spill = sys.argv[1:]
    with Connection(int(descriptor)) as connection, suppress(EOFError, ConnectionError):
        Worker(connection).serve(Path(spill))
