"""Print results as a table, JSON or CSV, once or repeatedly."""

import csv
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import typer
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from streaming.base.errors import UserError
from streaming.base.nearest import did_you_mean
from streaming.base.place import Place, root_of, tables_of
from streaming.base.terminal import command_line, visible, visible_json, visible_lines
from streaming.base.times import now_ms, one_now, written
from streaming.cli.grid import Cell, Grid
from streaming.cli.options import SHAPE, Format, Output, Shape
from streaming.queries.health import HEALTH, SEVERITY, Health, Severity
from streaming.queries.labels import moment, moment_in_zone
from streaming.queries.results import QueryResult, as_json, times_of

if TYPE_CHECKING:
    from streaming.tables import ReadModel  # imported when used: DuckDB takes half a second

T = TypeVar("T")


class AsOf(NamedTuple):
    """The instant that a result is the state of."""

    at: int | None
    """Epoch milliseconds; None: now."""


_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # noqa: RUF001  in Japanese and Chinese they do the same
"""Characters with which a formula begins in a spreadsheet."""
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*([eE][+-]?[0-9]+)?")
_ROOT = "REBALANCE_WATCH_RUNTIME__ROOT"
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
"""A name that YAML reads as it is; of our fields, and of the counts by code."""
_PIPED_WIDTH = 10_000
"""The width of output to a file or pipe, which is not folded; characters."""


def screen() -> Console:
    """Return the console for tables: coloured and folded on a terminal only; COLUMNS sets the width."""
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, width=_PIPED_WIDTH if piped else None)


def tables_by_settings() -> Place:
    """Return where the tables are by the settings, which are read if any but the root is given.

    To read and check all of them takes a third of the time of a question.
    """
    given = {name.upper() for name in os.environ if name.upper().startswith("REBALANCE_WATCH_")}
    if _ROOT in given <= {_ROOT, "REBALANCE_WATCH_TZ"}:
        return Path(os.environ[_ROOT]).expanduser().resolve() / "tables"
    from streaming.base.settings import load_settings

    return tables_of(load_settings())


def place_of_tables() -> Place:
    """Return where the tables of the runtime root are.

    Raises:
        UserError: there are none, but the demo has some.
    """
    folder = tables_by_settings()
    demo = root_of(folder) / "demo"
    if isinstance(folder, Path) and not folder.is_dir() and (demo / folder.name).is_dir():
        raise UserError(
            f"There are no tables in {folder}. To query those of the demo, use {command_line('--root', str(demo))}."
        )
    return folder


@contextmanager
def tables() -> Iterator["ReadModel"]:
    """Open the read model over the tables of the runtime root.

    Raises:
        UserError: there are no tables.
    """
    from streaming.tables import ReadModel

    with _interruption() as check, ReadModel(place_of_tables(), once=True) as model:
        check()
        yield model


def present(
    ask: Callable[["ReadModel"], T],
    draw: Callable[[T, int], RenderableType],
    rows: type[QueryResult],
    output: Output,
    *,
    as_of: AsOf | None = None,
    is_healthy: Callable[[T], bool] | None = None,
) -> T:
    """Run a query and print the result, with ``--watch`` repeatedly.

    Args:
        ask: the query.
        draw: renders the result as a table; its second argument is the time now, in epoch milliseconds.
        rows: the type of the result's rows, which gives the columns of CSV even without a row.
        output: what the user chose.
        as_of: the instant that the result is the state of, if it is one: which one that is is printed, and how long
            after the last telemetry.
        is_healthy: what `--check` asks of the result.

    Returns:
        The last result.

    Raises:
        Exit: the result is not healthy, or too little was heard before its instant; the code is 3.
    """
    with tables() as model:
        if output.watch:
            _say_instant(model, as_of, output.format)
            _watch(model, ask, draw, rows, output)
        with one_now():
            answer = ask(model)
            is_stale = _say_instant(model, as_of, output.format)
            _print(answer, draw, rows, output.format)
        if is_healthy is not None and (is_stale or not is_healthy(answer)):
            raise typer.Exit(3)
        return answer


def _say_instant(model: "ReadModel", as_of: AsOf | None, output_format: Format) -> bool:
    """Say on stderr which instant is shown, unless that is now, and return whether too little was heard before it."""
    from streaming.queries.present import dropped_by_age, known_ends

    if as_of is None:
        return False
    if (ends := known_ends(model, as_of.at)) is None:
        if (why := dropped_by_age(model)) is not None:
            sys.stderr.write(f"{why}\n")
        return False
    at = as_of.at
    said = ends.said(at, lambda time: f"--at '{moment(time, now_ms())}'")
    if said is not None and (output_format in {"table", "wide"} or at is None or ends.at_instant.is_stale):
        sys.stderr.write(f"{said}\n")
    return ends.at_instant.is_stale


@dataclass(frozen=True)
class Visible:
    """Output that contains foreign names (clients, groups, expressions), with control characters made visible."""

    body: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the segments of the body with control characters made visible."""
        for segment in console.render(self.body, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(visible_lines(segment.text), segment.style)


def print_table(body: RenderableType, console: Console) -> None:
    """Print a table; lines that are still too wide are folded by the terminal."""
    console.print(Visible(body), crop=False)


def section(title: str, body: RenderableType) -> list[RenderableType]:
    """Return a titled part of a longer output."""
    return [Text(f"\n{title}", style="bold underline"), body]


def _print(answer: T, draw: Callable[[T, int], RenderableType], rows: type[QueryResult], output_format: Format) -> None:
    shape = SHAPE.get()
    answer = _sorted(answer, rows, shape.sort)
    if output_format in {"json", "yaml"}:
        _print_fields(answer, rows, shape, output_format)
    elif output_format == "csv":
        names, times = _fields(rows, shape), times_of(rows)
        write_csv(names, [[_value(row, name, times) for name in names] for row in _rows(answer)], header=shape.headers)
    else:
        _print_shaped(draw(answer, now_ms()), screen(), shape, is_wide=output_format == "wide")
    sys.stdout.flush()


def _sorted(answer: T, rows: type[QueryResult], by: str) -> T:
    """Return a list sorted by a field, unknown values last; any other answer as it is.

    Raises:
        UserError: there is no such field.
    """
    name = by.lstrip("-+").replace("-", "_")
    if not by or not isinstance(answer, list):
        return answer
    _check_field(name, rows)
    ordered = [row for row in answer if getattr(row, name) is not None]
    unknown = [row for row in answer if getattr(row, name) is None]
    try:
        ordered.sort(key=lambda row: getattr(row, name), reverse=by.startswith("-"))
    except TypeError:
        raise UserError(f"Rows can't be sorted by {name}: its values have no order.") from None
    return [*ordered, *unknown]  # type: ignore[return-value]  # a list as before


def _fields(rows: type[QueryResult], shape: Shape) -> list[str]:
    """Return the names of the fields to print.

    Raises:
        UserError: there is no such field.
    """
    for name in shape.columns:
        _check_field(name, rows)
    return list(shape.columns or rows.model_fields)


def _check_field(name: str, rows: type[QueryResult]) -> None:
    if name not in rows.model_fields:
        advice = did_you_mean(name, rows.model_fields) or f"The fields are {', '.join(rows.model_fields)}."
        raise UserError(f"There is no field {name}: {advice}")


def _print_fields(answer: T, rows: type[QueryResult], shape: Shape, output_format: Format) -> None:
    chosen: object = answer
    if shape.columns:
        names = _fields(rows, shape)
        listed = [{name: getattr(row, name) for name in names} for row in _rows(answer)]
        chosen = listed if isinstance(answer, list) else listed[0]
    if output_format == "json":
        print_json(chosen)
    else:
        print_yaml(chosen)


def print_yaml(answer: object) -> None:
    """Print a result as YAML, with the fields and values of its JSON."""
    sys.stdout.write("\n".join(_yaml(json.loads(as_json(answer)))) + "\n")


def _yaml(value: object, indent: str = "") -> Iterator[str]:
    """Yield the lines of a value as YAML, whose scalars and empty lists are those of JSON."""
    if isinstance(value, dict) and value:
        for name, field in value.items():
            key = name if _PLAIN_KEY.fullmatch(name) else json.dumps(name)
            if isinstance(field, dict | list) and field:
                yield f"{indent}{key}:"
                yield from _yaml(field, f"{indent}  ")
            else:
                yield f"{indent}{key}: {visible_json(json.dumps(field, ensure_ascii=False))}"
    elif isinstance(value, list) and value:
        for element in value:
            first, *others = _yaml(element, f"{indent}  ")
            yield f"{indent}- {first.lstrip()}"
            yield from others
    else:
        yield f"{indent}{visible_json(json.dumps(value, ensure_ascii=False))}"


def _print_shaped(body: RenderableType, console: Console, shape: Shape, *, is_wide: bool) -> None:
    """Print a table; the columns are chosen of the first one, if an answer has several."""
    grids = list(_grids(body))
    if grids and shape.columns:
        grids[0].choose(shape.columns)
    for grid in grids:
        grid.headers, grid.is_wide = shape.headers, is_wide
    print_table(body, console)
    if hidden := sum(grid.hidden(console.width) for grid in grids):
        sys.stdout.flush()
        sys.stderr.write(f"{hidden} column{'s' * (hidden > 1)} hidden (-o wide)\n")


def _grids(body: RenderableType) -> Iterator[Grid]:
    if isinstance(body, Grid):
        yield body
    elif isinstance(body, Group):
        for one in body.renderables:
            yield from _grids(one)


def _value(row: QueryResult, name: str, times: Container[str]) -> object:
    value = getattr(row, name)
    return written(value) if name in times and value is not None else value


def _rows(answer: object) -> Sequence[QueryResult]:
    if answer is None:
        return []
    return [answer] if isinstance(answer, QueryResult) else list(answer)  # type: ignore[call-overload]  # a sequence of them


def print_json(answer: object) -> None:
    """Print a result as JSON, in the format of the REST API; indented on a terminal."""
    text = as_json(answer, indent=2 if sys.stdout.isatty() else None).decode()
    sys.stdout.write(f"{visible_json(text) if sys.stdout.isatty() else text}\n")


def write_csv(names: Sequence[str], rows: Iterable[Sequence[object]], *, header: bool = True) -> None:
    """Write a header and rows as CSV: unknown values are empty, nested ones are JSON.

    Foreign names do nothing to a terminal or spreadsheet: non-printable characters are escaped as in tables, and a text
    that a spreadsheet would compute begins with an apostrophe. JSON has all texts as they are.
    """
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if header:
        writer.writerow(map(_text, names))
    writer.writerows([_plain(value) for value in row] for row in rows)


def _plain(value: object) -> object:
    if isinstance(value, str):
        return _text(value)
    return value if value is None or type(value) in {int, float} else visible_json(as_json(value).decode())


def _text(text: str) -> str:
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULA) and not _NUMBER.fullmatch(shown) else shown


def _watch(
    model: "ReadModel",
    ask: Callable[["ReadModel"], T],
    draw: Callable[[T, int], RenderableType],
    rows: type[QueryResult],
    output: Output,
) -> None:
    """Print the result repeatedly until Ctrl-C, which ends the command with exit code 130."""
    with _interruption() as check:
        if output.format not in {"table", "wide"} or not sys.stdout.isatty():
            while True:
                with one_now():
                    _print(ask(model), draw, rows, output.format)
                _pause(model, output.every, check)
        with Live(console=screen(), auto_refresh=False, vertical_overflow="ellipsis") as live:
            while True:
                with one_now():
                    now = now_ms()
                    head = Text(f"{moment_in_zone(now, now)}, every {output.every:g} s (Ctrl-C to stop)\n", style="dim")
                    live.update(Group(head, Visible(draw(ask(model), now))), refresh=True)
                _pause(model, output.every, check)


def _pause(model: "ReadModel", seconds: float, check: Callable[[], None]) -> None:
    check()
    time.sleep(seconds)
    model.refresh()
    check()


@contextmanager
def _interruption() -> Iterator[Callable[[], None]]:
    """Yield a function that raises KeyboardInterrupt if Ctrl-C was pressed.

    Ctrl-C itself raises it as well. But it may occur during a library's callback from C and be lost there, or be
    converted to an error of that library.
    """
    interrupted = False

    def interrupt(_signal: int, _frame: object) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    def check() -> None:
        if interrupted:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield check
    except Exception:
        check()
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def health(status: Health, reason: str = "") -> Cell:
    """Return a health status (OK, WARN, BAD or UNKNOWN) and its reason as a cell."""
    return Cell(f"{status} {reason}".rstrip(), HEALTH[status].style)


def severity(name: Severity, text: str | None = None) -> Cell:
    """Return a severity, or a text in its style, as a cell."""
    return Cell(name if text is None else text, SEVERITY[name].style)
