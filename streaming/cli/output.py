"""How an answer is printed: as a table, as JSON or as CSV, once or again and again."""

import csv
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from streaming.cli.grid import Cell, visible
from streaming.cli.options import Format, Output
from streaming.errors import UserError
from streaming.queries.answers import Answer, as_json
from streaming.queries.words import moment
from streaming.settings import load_settings
from streaming.times import now_ms

if TYPE_CHECKING:
    from streaming.read_model import ReadModel  # imported when asked: DuckDB takes half a second

HEALTH = {"OK": "green", "WARN": "yellow", "BAD": "bold red", "UNKNOWN": "italic magenta"}
SEVERITY = {"critical": "bold red", "warning": "yellow", "info": "blue"}

T = TypeVar("T")

_PIPED_WIDTH = 10_000
"""What goes into a file or a pipe is not folded."""


def screen() -> Console:
    """Where tables go: on a terminal coloured and folded, elsewhere neither, but for COLUMNS, which says how wide."""
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, width=_PIPED_WIDTH if piped else None)


@contextmanager
def tables() -> Iterator["ReadModel"]:
    """The read model over the tables of this runtime root.

    Raises:
        UserError: there are none.
    """
    from streaming.read_model import ReadModel

    folder = load_settings().runtime.tables
    demo = folder.parent / "demo"
    if not folder.is_dir() and (demo / folder.name).is_dir():
        raise UserError(f"There are no tables in {folder}; those of the demo are asked with --root {demo}.")
    with _interruption() as check, ReadModel(folder) as model:
        check()
        yield model


def present(
    ask: Callable[["ReadModel"], T],
    draw: Callable[[T, int], RenderableType],
    rows: type[Answer],
    output: Output,
    *,
    current: bool = False,
) -> T:
    """Ask, and print the answer; with ``--watch`` again and again.

    Args:
        ask: the question.
        draw: the answer as a table, given it and the time now.
        rows: the type of the answer's rows: the columns of CSV, also where there is no row.
        output: what the user wants.
        current: whether the answer is of now: where telemetry has stopped, that is said.

    Returns:
        The answer.
    """
    with tables() as model:
        if current:
            _say_if_silent(model)
        if output.watch:
            _watch(model, ask, draw, rows, output)
        answer = ask(model)
        _print(answer, draw, rows, output.format)
        return answer


def _say_if_silent(model: "ReadModel") -> None:
    from streaming.queries.present import known_ends

    found = known_ends(model)
    if found is not None and found.silent:
        since = moment(found.last, now_ms())
        sys.stderr.write(f"No telemetry since {since} UTC. Showing the last known state.\n")


@dataclass(frozen=True)
class Visible:
    """What others have named (clients, groups, expressions), without power over the terminal."""

    body: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What the body renders to, piece by piece."""
        for segment in console.render(self.body, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment("\n".join(map(visible, segment.text.split("\n"))), segment.style)


def print_table(body: RenderableType, console: Console) -> None:
    """Onto a terminal or elsewhere; what is too wide even so, the terminal folds."""
    console.print(Visible(body), crop=False)


def section(title: str, body: RenderableType) -> list[RenderableType]:
    """A part of a longer answer."""
    return [Text(f"\n{title}", style="bold underline"), body]


def _print(answer: T, draw: Callable[[T, int], RenderableType], rows: type[Answer], wanted: Format) -> None:
    if wanted == "json":
        print_json(answer)
    elif wanted == "csv":
        names = list(rows.model_fields)
        write_csv(names, [[getattr(row, name) for name in names] for row in _rows(answer)])
    else:
        print_table(draw(answer, now_ms()), screen())
    sys.stdout.flush()


def _rows(answer: object) -> Sequence[Answer]:
    if answer is None:
        return []
    return [answer] if isinstance(answer, Answer) else list(answer)  # type: ignore[call-overload]  # a sequence of them


def print_json(answer: object) -> None:
    """As the REST API sends it; for a person's eyes indented."""
    sys.stdout.write(as_json(answer, indent=2 if sys.stdout.isatty() else None).decode() + "\n")


def write_csv(names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A header and the rows: what is not known is empty, what has parts is JSON."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_plain(value) for value in row] for row in rows)


def _plain(value: object) -> object:
    return value if value is None or type(value) in {str, int, float} else as_json(value).decode()


def _watch(
    model: "ReadModel",
    ask: Callable[["ReadModel"], T],
    draw: Callable[[T, int], RenderableType],
    rows: type[Answer],
    output: Output,
) -> None:
    """Until Ctrl-C, which ends the command with exit code 130."""
    with _interruption() as check:
        if output.format != "table" or not sys.stdout.isatty():
            while True:
                _print(ask(model), draw, rows, output.format)
                _rest(model, output.every, check)
        with Live(console=screen(), auto_refresh=False, vertical_overflow="ellipsis") as live:
            while True:
                now = now_ms()
                head = Text(f"{moment(now, now)} UTC, every {output.every:g} s; Ctrl-C ends it\n", style="dim")
                live.update(Group(head, Visible(draw(ask(model), now))), refresh=True)
                _rest(model, output.every, check)


def _rest(model: "ReadModel", seconds: float, check: Callable[[], None]) -> None:
    check()
    time.sleep(seconds)
    model.refresh()
    check()


@contextmanager
def _interruption() -> Iterator[Callable[[], None]]:
    """Gives a function that raises KeyboardInterrupt if there was a Ctrl-C.

    The Ctrl-C itself raises it, too. But it may come while a library calls back from C, and be lost there, or become
    an error of that library's.
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


def health(status: str, reason: str = "") -> Cell:
    """OK, WARN, BAD or UNKNOWN, each to be told apart without colour, too."""
    return Cell(f"{status} {reason}".rstrip(), HEALTH[status])


def severity(name: str, text: str | None = None) -> Cell:
    """A severity, or something that has it."""
    return Cell(name if text is None else text, SEVERITY[name])
