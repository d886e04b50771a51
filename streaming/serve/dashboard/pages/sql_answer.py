"""The answer of a query as its page shows it: columns by what they hold, and lines over time."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from streaming.queries import labels
from streaming.queries.sql_process import SqlAnswer
from streaming.serve.dashboard.charts.trends import Lines
from streaming.serve.dashboard.parts.moment import Window

Kind: TypeAlias = Literal["time", "number", "text"]
Cell: TypeAlias = str | int | float | None
"""A text as it is shown, an instant in epoch milliseconds, or a number; None: null."""

CELLS_MAX = 20_000
"""The maximum number of values that are kept of an answer for its page; a file has all."""
COLUMNS_MAX = 200
TEXT_MAX = 300
"""The maximum number of characters of a value that are shown."""
LINES_MAX = 12
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d))?")
_IS_NAME = re.compile(r"(^|_)(id|seq|partition|level)$")
"""The names of columns whose numbers are names: no line has them as its values."""


class Column(NamedTuple):
    """A column of an answer."""

    name: str
    kind: Kind


class KeptAnswer(NamedTuple):
    """The part of an answer that is kept."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    total: int
    """How many rows were read."""
    is_cut: bool
    """Whether there are more rows or columns than are kept."""
    warnings: Sequence[str]


class LinesOverTime(NamedTuple):
    """The lines of a chart."""

    lines: Lines
    total: int
    """How many there are; only the highest `LINES_MAX` are kept."""
    window: Window


class _Sent(msgspec.Struct):
    """A `SqlResult` whose values are not decoded: they may be very many."""

    columns: list[str]
    rows: list[list[msgspec.Raw]]
    cut: bool
    durations: list[str] = []
    warnings: list[str] = []


def kept(answer: SqlAnswer) -> KeptAnswer:
    """Return what a page keeps of an answer."""
    sent = msgspec.json.decode(answer.content, type=_Sent)
    names = sent.columns[:COLUMNS_MAX]
    rows = sent.rows[: max(1, CELLS_MAX // max(1, len(names)))]
    made = [_column(name, [row[n] for row in rows], is_duration=name in sent.durations) for n, name in enumerate(names)]
    is_cut = sent.cut or len(rows) < len(sent.rows) or len(names) < len(sent.columns)
    values = list(zip(*(cells for _, cells in made), strict=True)) if made else []
    return KeptAnswer([column for column, _ in made], values, answer.rows, is_cut, sent.warnings)


def _column(name: str, raw: Iterable[msgspec.Raw], *, is_duration: bool) -> tuple[Column, list[Cell]]:
    cells = [_cell(one) for one in raw]
    values = [one for one in cells if one is not None]
    if is_duration:
        return Column(name, "text"), [None if one is None else labels.iso_duration(str(one)) for one in cells]
    if values and all(isinstance(one, str) and _TIME.fullmatch(one) for one in values):
        return Column(name, "time"), [None if one is None else _epoch_ms(str(one)) for one in cells]
    if values and not any(isinstance(one, str) for one in values):
        return Column(name, "number"), cells
    return Column(name, "text"), [None if one is None else str(one) for one in cells]


def _cell(raw: msgspec.Raw) -> Cell:
    """Return a value as null, a number, or a text of at most `TEXT_MAX` characters; a nested value is JSON."""
    begin = bytes(memoryview(raw)[: 4 * TEXT_MAX])
    if begin[:1] in {b"{", b"[", b"t", b"f"}:
        return _shortened(begin.decode(errors="ignore"))
    value: Cell = msgspec.json.decode(raw)
    return _shortened(value) if isinstance(value, str) else value


def _shortened(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"


def _epoch_ms(text: str) -> int:
    parsed = datetime.fromisoformat(text)
    return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)


def lines_of(answer: KeptAnswer) -> LinesOverTime | None:
    """Return the lines of an answer by its first column of times; None if it has none, or nothing to draw over them.

    Each column of numbers is a line; so it is for each combination of the other values, as the name of a group.
    """
    kinds = {
        kind: [n for n, column in enumerate(answer.columns) if column.kind == kind]
        for kind in ("time", "number", "text")
    }
    numbers = [n for n in kinds["number"] if not _IS_NAME.search(answer.columns[n].name)]
    if not kinds["time"] or not numbers:
        return None
    names = [*kinds["text"], *(n for n in kinds["number"] if n not in numbers)]
    lines: Lines = {}
    for row in answer.rows:
        time, of = _number(row[kinds["time"][0]]), [str(row[n]) for n in names if row[n] is not None]
        for n in numbers if time is not None else ():
            name = " ".join([*of, *([answer.columns[n].name] if len(numbers) > 1 or not of else [])])
            lines.setdefault(name, []).append([time, _number(row[n])])
    if not any(len({time for time, _ in line}) > 1 for line in lines.values()):
        return None
    highest = sorted(lines, key=lambda name: -max((value for _, value in lines[name] if value is not None), default=0))
    shown = {name: sorted(lines[name], key=lambda point: point[0] or 0) for name in sorted(highest[:LINES_MAX])}
    ends = [int(point[0] or 0) for line in shown.values() for point in (line[0], line[-1])]
    return LinesOverTime(shown, len(lines), Window(min(ends), max(ends)))


def _number(cell: Cell) -> float | None:
    return cell if isinstance(cell, int | float) else None
