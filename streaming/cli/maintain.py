"""`rebalance-watch maintain`: merges small files, drops old rows if asked to, removes what nobody needs any more."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from schemas.tables import TABLES
from streaming.cli.grid import visible
from streaming.errors import UserError
from streaming.settings import load_settings
from streaming.times import duration_ms, now_ms

if TYPE_CHECKING:
    from streaming.maintenance import Done, Limits

_KEEP_MS_MIN = 3_600_000
_DAY_MS = 86_400_000


def maintain(
    *,
    older_than: Annotated[
        str | None, typer.Option(help="Drop rows that are older, as 30d; without it none is dropped.")
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help="Only this table; may be given more than once.")] = None,
    keep: Annotated[
        str, typer.Option(help="How long files that were replaced stay for who still reads them; at least 1h.")
    ] = "1d",
    every: Annotated[
        str | None, typer.Option(help="Do it again and again, with such a pause, as 10m; whatever fails once.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing, say what would be done.")] = False,
) -> None:
    """Keep the tables quick to read, while the job goes on.

    The job leaves a small file for every batch: they are merged into larger ones, sorted by group. No row changes but
    for those that --older-than drops. Who owns a queue since before then stays, and so does an open incident.
    """
    from streaming.maintenance import PRUNED, Limits
    from streaming.progress_rollup import SERIES

    settings = load_settings()
    tables, wanted = settings.runtime.tables, table or list(TABLES)

    def _limits(since: int | None, replaced: int, name: str) -> Limits:
        """What is kept of a table: of the series, as many days as the settings say."""
        days = settings.tables.kept_days(name)
        kept = now_ms() - days * _DAY_MS if days is not None else None
        return Limits(max((one for one in (since, kept) if one is not None), default=None), replaced)

    for name in wanted:
        if name not in TABLES:
            raise UserError(f"There is no table {name}: it is one of {', '.join(TABLES)}.")
        if table and older_than is not None and name not in PRUNED:
            raise UserError(f"The table {name} is always kept whole: leave out --older-than, or --table {name}.")
    replaced = duration_ms(keep)
    if replaced < _KEEP_MS_MIN:
        raise UserError(f"--keep {keep} is too short: the job or a reader may need such a file for an hour.")
    if not any((tables / name).is_dir() for name in wanted):
        raise UserError(f"There are no tables in {tables}: start `rebalance-watch run`, or name another --root.")
    age = duration_ms(older_than) if older_than is not None else None

    def once() -> None:
        since = now_ms() - age if age is not None else None
        if not dry_run and not set(SERIES).isdisjoint(wanted):
            _roll_up(tables)
        _once(tables, wanted, partial(_limits, since, replaced), dry_run=dry_run)

    if every is None:
        once()
    else:
        _again_and_again(once, every)


def _roll_up(tables: Path) -> None:
    """Sum up the days of the series that are over: before any of them is dropped."""
    from deltalake.exceptions import TableNotFoundError

    from streaming.maintenance import maintained
    from streaming.progress_rollup import roll_up

    with maintained(tables):
        try:
            done = roll_up(tables, now_ms())
        except TableNotFoundError:  # of a later release than these tables
            return
    for one in done:
        Console(stderr=True).print(f"{one.table}: {one.day} summed up in {one.rows:,} rows", highlight=False)


def _again_and_again(once: Callable[[], None], every: str) -> NoReturn:
    """Go on whatever becomes of a round: the job was in the way, or the disk full, and the next one may be better."""
    pause = duration_ms(every) / 1000
    while True:
        try:
            once()
        except UserError as error:
            told = escape(visible(f"{error} The next round is in {every}."))
            Console(stderr=True).print(f"[red]error:[/] {told}", highlight=False, soft_wrap=True)
        time.sleep(pause)


def _once(tables: Path, wanted: Sequence[str], limits: Callable[[str], "Limits"], *, dry_run: bool) -> None:
    """One round.

    Raises:
        UserError: it could not be done, or not wholly.
    """
    import duckdb
    from deltalake.exceptions import DeltaError

    try:
        done = _round(tables, wanted, limits, dry_run=dry_run)
    except (duckdb.Error, DeltaError, OSError) as error:
        why = str(error).partition("\n")[0].removesuffix(".")
        raise UserError(f"The tables in {tables} can't be maintained: {why}.") from error
    _print(done, dry_run=dry_run)


def _round(tables: Path, wanted: Sequence[str], limits: Callable[[str], "Limits"], *, dry_run: bool) -> list["Done"]:
    from deltalake.exceptions import TableNotFoundError

    from streaming.maintenance import maintain as run
    from streaming.maintenance import maintained

    console, done = Console(stderr=True), []
    with maintained(tables), console.status("") as status:
        for name in wanted:
            status.update(f"table {name}")
            try:
                done.append(run(tables, name, limits(name), dry_run=dry_run))
            except TableNotFoundError:  # of a later release than these tables
                continue
    return done


def _print(done: Sequence["Done"], *, dry_run: bool) -> None:
    console = Console(highlight=False)
    shown = Table(box=None, pad_edge=False)
    shown.add_column("table", no_wrap=True)
    for name in ("files before", "after", "merged", "rows dropped", "files removed", "seconds"):
        shown.add_column(name, justify="right")
    for one in done:
        numbers = (one.files_before, one.files_after, one.merged, one.rows_dropped, one.removed)
        told = ("-" if number is None else f"{number:,}" for number in numbers)
        shown.add_row(one.table, *told, f"{one.seconds:.1f}")
    console.print(shown)
    if dry_run:
        console.print("Nothing was changed: that is what would be done.")
