"""Render tables of any length on the terminal.

rich's own Table takes 9 s for the 4,096 queues of a large group with nine columns, this one 0.1 s. rich lays out every
cell separately; here a cell is one line of plain text with one style, and only cells that are too wide are folded.
"""

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from streaming.base.errors import UserError
from streaming.base.terminal import visible
from streaming.base.times import zone_at
from streaming.queries.columns import INCIDENT
from streaming.queries.columns.column import Context
from streaming.queries.columns.column import ResultColumn as Described
from streaming.queries.health import HEALTH, SEVERITY
from streaming.queries.results import Incident, QueryResult

R = TypeVar("R", bound=QueryResult)

_GAP = 2
_NARROWEST = 8
"""The minimum width of a folded column, if its title is not longer; characters."""
_COMFORTABLE = 32
"""Optional columns stay while the other columns can have this width or all that they need; characters."""
_STYLES: dict[str, str] = {
    "": "", "attention": "yellow", "unassigned": "yellow", "quiet": "dim", "stale": "dim",
    **{name: level.style for name, level in (*HEALTH.items(), *SEVERITY.items())},
}  # fmt: skip
"""The style of rich by the tone of a value."""
_PART = re.compile(r"[^_@:.-]*[_@:.-]|[^_@:.-]+")


@dataclass(frozen=True)
class Cell:
    """A line of text with a style of rich."""

    text: str
    style: str = ""

    def __post_init__(self) -> None:
        """Make the text one visible line."""
        if not self.text.isprintable():
            object.__setattr__(self, "text", visible(self.text))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class GridColumn:
    """A column with its title."""

    title: str
    name: str = ""
    """The name in `--columns`."""
    right: bool = False
    """True if the column is right-aligned, as numbers are."""
    spare: bool = False
    """True if the column is omitted if it has no known value, or if the terminal is too narrow (the last one first)."""

    @property
    def nothing(self) -> tuple[str, ...]:
        """The cells that carry no information in this column."""
        return ("", "-") if self.spare else ("",)


def _title(column: Described[R], context: Context) -> str:
    """Return the title of a column; times that are not UTC are printed under their zone."""
    title, zone = column.title.lower(), zone_at(context.now)
    return title if column.kind != "time" or zone == "UTC" else f"{title} ({zone})"


@dataclass
class Grid:
    """Rows under titles, folded if the terminal is too narrow. An empty column is omitted."""

    columns: Sequence[GridColumn]
    rows: list[tuple[Cell, ...]] = field(default_factory=list)
    is_wide: bool = False
    """True if every column with a known value is printed, on one line, however narrow the terminal is."""
    headers: bool = True

    @classmethod
    def of(
        cls,
        described: Sequence[Described[R]],
        rows: Sequence[R],
        context: Context,
        *,
        without: Container[str] = (),
    ) -> "Grid":
        """Return a table of rows in described columns, except those named in ``without``."""
        columns = [column for column in described if column.name not in without]
        grid = cls(
            [GridColumn(_title(column, context), column.name, column.is_number, column.spare) for column in columns]
        )
        for row in rows:
            values = [column.value(row, context) for column in columns]
            grid.add(*(Cell(str(value), _STYLES[value.tone]) for value in values))
        return grid

    def add(self, *cells: str | Cell) -> None:
        """Add a row, a cell for each column."""
        self.rows.append(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in cells))

    def fits(self, width: int) -> bool:
        """Return whether all columns with a known value fit in a width, in characters: none is hidden."""
        return _total(self._folded(self._known(), width)) <= width

    def choose(self, names: Sequence[str]) -> None:
        """Keep only these columns, in this order; all of them are printed.

        Raises:
            UserError: there is no such column.
        """
        place_of = {column.name or column.title.replace(" ", "_"): place for place, column in enumerate(self.columns)}
        if unknown := [name for name in names if name not in place_of]:
            raise UserError(f"There is no column {unknown[0]} here. The columns are {', '.join(place_of)}.")
        places = [place_of[name] for name in names]
        self.columns = [replace(self.columns[place], spare=False) for place in places]
        self.rows = [tuple(row[place] for place in places) for row in self.rows]

    def hidden(self, width: int) -> int:
        """Return how many columns with a known value have no room."""
        return len(self._known()) - len(self._widths(width))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines as segments of rich."""
        widths = self._widths(options.max_width)
        titles = tuple(Cell(column.title, "bold") for column in self.columns)
        styles: dict[str, Style | None] = {"": None}
        for row in [*([titles] if self.headers else []), *self.rows]:
            for line in self._lines(row, widths):
                for text, style in line:
                    if style not in styles:
                        styles[style] = console.get_style(style)
                    yield Segment(text, styles[style])
                yield Segment.line()

    def _known(self) -> dict[int, int]:
        """Return the width that each column with a known value needs, by its index."""
        return {
            place: max([cell_len(column.title), *(cell_len(row[place].text) for row in self.rows)])
            for place, column in enumerate(self.columns)
            if not self.rows or any(row[place].text not in column.nothing for row in self.rows)
        }

    def _widths(self, most: int) -> dict[int, int]:
        """Return the width of each visible column by its index.

        Where there is no room for whole words, spare columns are hidden, the last one first, then others except the
        first two and the last.
        """
        natural = self._known()
        if self.is_wide:
            return natural
        for place in reversed(list(natural)):
            if self.columns[place].spare and _total({p: min(w, _COMFORTABLE) for p, w in natural.items()}) > most:
                del natural[place]
        words = {
            place: max([len(self.columns[place].title), *self._words(place)])
            if not self.columns[place].right else natural[place]
            for place in natural
        }  # fmt: skip
        between = sorted(list(natural)[2:-1], key=lambda place: (self.columns[place].right, place))
        for place in reversed(between):  # numbers first, the last one first
            if _total({p: words[p] for p in natural}) > most:
                del natural[place]
        return self._folded(natural, most)

    def _words(self, place: int) -> list[int]:
        """Return the widths of the words in a column."""
        return [cell_len(word) for row in self.rows for word in row[place].text.split()]

    def _folded(self, widths: dict[int, int], most: int) -> dict[int, int]:
        """Narrow the widest columns until all fit: first at word boundaries, then within names.

        If that is not enough, the terminal folds the lines.
        """
        if _total(widths) <= most:
            return widths
        titles = {place: len(self.columns[place].title) for place in widths}
        words = {place: max(self._words(place), default=0) for place in widths}
        for least in (words, dict.fromkeys(widths, _NARROWEST)):
            while _total(widths) > most:
                wide = [
                    place
                    for place, width in widths.items()
                    if width > max(least[place], titles[place]) and not self.columns[place].right
                ]
                if not wide:
                    break
                widths[max(wide, key=lambda place: widths[place])] -= 1
        return widths

    def _lines(self, row: Sequence[Cell], widths: dict[int, int]) -> Iterator[list[tuple[str, str]]]:
        texts = {place: _fold(row[place].text, width) for place, width in widths.items()}
        for number in range(max(map(len, texts.values()), default=0)):
            pieces = {place: folded[number] if number < len(folded) else "" for place, folded in texts.items()}
            last = max((place for place, text in pieces.items() if text), default=None)
            line: list[tuple[str, str]] = []
            for place, text in pieces.items():
                padding = " " * max(0, widths[place] - cell_len(text))
                cells = [(text, row[place].style), (padding, "")]
                if last is None or place > last:
                    break
                line += reversed(cells) if self.columns[place].right else cells
                line.append((" " * _GAP, ""))
            yield line[:-1] if last is None or self.columns[last].right else line[:-2]


def _fold(text: str, width: int) -> list[str]:
    """Fold a text at word boundaries if possible, else within names, preferably after a separator."""
    if cell_len(text) <= width:
        return [text]
    lines: list[str] = []
    for word in text.split():
        parts = [word] if cell_len(word) <= width else _parts(word, width)
        for part, gap in zip(parts, [" ", *([""] * len(parts))], strict=False):
            if lines and cell_len(lines[-1] + gap + part) <= width:
                lines[-1] += gap + part
            else:
                lines.append(part)
    return lines or [""]


def _parts(word: str, width: int) -> list[str]:
    return [piece for part in _PART.findall(word) for piece in chop_cells(part, width)]


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def incident_grid(incidents: Sequence[Incident], now: int, *, with_group: bool = True) -> Grid:
    """Return a table with one row per incident, titled by its main cause."""
    several = with_group and len({incident.cluster for incident in incidents}) > 1
    without = {*(() if several else ("cluster",)), *(() if with_group else ("group",))}
    return Grid.of(INCIDENT.grid, incidents, Context(now), without=without)
