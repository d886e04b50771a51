"""`rebalance-watch maintain`: merge small files, drop old rows on request, and remove files no longer in use."""

from collections.abc import Callable, Container, Sequence
from functools import partial
from importlib.util import find_spec
from threading import Event as Flag
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from schemas.tables import TABLES
from streaming.base.errors import NotReadyError, UserError, first_line
from streaming.base.health import Health, Task
from streaming.base.lines import print_error, print_line, start_lines
from streaming.base.place import Place, tables_of
from streaming.base.process import Pace
from streaming.base.settings import Settings, load_settings
from streaming.base.terminal import visible
from streaming.base.times import DAY_MS, duration_ms, now_ms
from streaming.cli.interruption import Interruption, pause, wait_for_tables

if TYPE_CHECKING:
    from checkpoints.table_quality import TableGate
    from streaming.tables.maintenance import Done, Limits

_KEEP_MS_MIN = 3_600_000
_ROUND_MS = 3_600_000
"""The longest time that a round may take, of large tables that have not been maintained for days."""
_FIRST_CHECK_SECONDS = 60.0
"""The first check comes this long after the start: its imports take seconds, and a job may be starting, too."""


def maintain(
    *,
    older_than: Annotated[
        str | None, typer.Option(help="Drop rows older than this, such as 30d; default: none.")
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help="Only this table; repeatable.")] = None,
    keep: Annotated[
        str | None,
        typer.Option(help="Retention of replaced files, which former versions need; default: tables.versions_days."),
    ] = None,
    every: Annotated[
        str | None, typer.Option(help="Repeat with this pause, such as 1m; a failed run does not stop it.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, without changes.")] = False,
) -> None:
    """Compact the tables while the job is running.

    The job writes a small file for every batch; they are merged into larger ones, sorted by group. No rows change
    except those dropped by --older-than. Open incidents, owners, and the last state of their groups and queues are
    kept however old they are. With --every it also checks the tables every quality.check_seconds: see `quality`.
    """
    from streaming.tables.delta import is_delta_at
    from streaming.tables.maintenance import PRUNED, Limits

    settings = load_settings()
    tables, names = tables_of(settings), table or list(TABLES)

    def _limits(since: int | None, replaced: int, name: str) -> Limits:
        """Return the retention of a table; that of the series is set in [tables]."""
        days = settings.tables.kept_days(name)
        kept = now_ms() - days * DAY_MS if days is not None else None
        begin = max((one for one in (since, kept) if one is not None), default=None)
        return Limits(begin, replaced, settings.tables.versions_days)

    _check_names(names, PRUNED if table and older_than is not None else TABLES)
    replaced = _replaced_ms(keep, settings.tables.versions_days)
    age = duration_ms(older_than) if older_than is not None else None

    def exist() -> bool:
        return any(is_delta_at(tables / name) for name in names)

    def once(stopping: Flag | None = None) -> None:
        since = now_ms() - age if age is not None else None
        done, failed = _round(tables, names, partial(_limits, since, replaced), dry_run=dry_run, stopping=stopping)
        if every is None:
            _print(done, dry_run=dry_run)
        else:
            _print_round(done)
        if failed:
            raise UserError(" ".join(failed))

    if every is not None:
        _repeat(once, every, partial(wait_for_tables, exist, tables), settings)
        return
    if not exist():
        raise UserError(f"There are no tables in {tables}: start `rebalance-watch run` first, or set another --root.")
    once()


def _replaced_ms(keep: str | None, versions_days: int) -> int:
    """Return how long replaced files are kept: as long as the log keeps the versions that need them, or shorter."""
    log_ms = versions_days * DAY_MS
    if keep is None:
        return log_ms
    replaced = duration_ms(keep)
    if replaced < _KEEP_MS_MIN:
        raise UserError(f"--keep {keep} is too short: the job or a reader may need a replaced file for up to 1h.")
    if replaced > log_ms:
        raise UserError(
            f"--keep {keep} is longer than the log keeps the versions that need these files: raise "
            f"tables.versions_days, which is {versions_days}, or omit --keep."
        )
    return replaced


def _check_names(names: Sequence[str], droppable: Container[str]) -> None:
    for name in names:
        if name not in TABLES:
            raise UserError(f"Unknown table {name}. Use one of {', '.join(TABLES)}.")
        if name not in droppable:
            raise UserError(f"Rows of table {name} are never dropped: omit --older-than or --table {name}.")


def _roll_up(tables: Place) -> None:
    """Aggregate the completed days of the series before any of them is dropped."""
    from streaming.tables.progress_rollup import roll_up

    for one in roll_up(tables, now_ms()):
        print_line(f"{one.table}: {one.day} aggregated to {one.rows:,} rows", table=one.table, rows=one.rows)


def _repeat(once: Callable[[Flag], None], every: str, wait: Callable[[Task, Flag], None], settings: Settings) -> None:
    """Repeat until a signal; a round that fails (conflict with the job, full disk) is reported and retried.

    A signal sets a flag, which is looked at between two tables, and raises nothing: whichever library works then would
    have to let an exception through. What takes longer than the grace period is cut off: no commit is made by halves.
    """
    from streaming.base.process import GIVE_BACK_SECONDS, give_back
    from streaming.serve.web.probes import probes

    pause_ms, health = duration_ms(every), Health()
    start_lines(settings.log.format, "maintain")
    maintained = health.task("round of maintenance", 3 * pause_ms + _ROUND_MS)
    with Interruption() as interruption, probes(health, settings.health.host, settings.health.maintain):
        stopping = interruption.flag
        wait(maintained, stopping)
        print_line(f"Maintaining the tables every {every}.")
        checks, memory = _Checks(settings), Pace(GIVE_BACK_SECONDS)
        while not stopping.is_set():
            try:
                once(stopping)
                maintained.done()
            except UserError as error:
                maintained.failed(str(error))
                print_error(f"{error} Retrying in {every}.")
            if not stopping.is_set():
                checks.when_due()
            if memory.is_due():
                give_back()
            pause(pause_ms / 1000, stopping)
    print_line("stopped")


class _Checks:
    """Checks the tables every `quality.check_seconds`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pause = settings.quality.check_seconds
        self._gate: TableGate | None = None
        self._due = monotonic() + min(self._pause, _FIRST_CHECK_SECONDS) if self._pause else float("inf")
        if self._pause and find_spec("great_expectations") is None:
            self._due = float("inf")
            print_line("The tables are not checked: install rebalance-watch[job], or set quality.check_seconds to 0.")

    def when_due(self) -> None:
        """Check, and print what failed; a check that can't be made is reported and made again at the next turn."""
        if monotonic() < self._due:
            return
        from checkpoints.table_quality import TableGate
        from streaming.queries.labels import checked as checked_by

        self._due = monotonic() + self._pause
        try:
            self._gate = self._gate or TableGate(self._settings)
            checked = self._gate.check(now_ms())
        except UserError as error:
            _not_checked(error, f"The tables were not checked: {error}")
            return
        for why in checked.left_out:
            _not_checked(why, str(why))
        for result in checked.results:
            if not result.success:
                subject = f"{result.suite} {checked_by(result.column, result.expectation)}"
                print_error(
                    visible(f"A check of the tables failed: {subject}: {result.why} {result.observed or ''}".rstrip())
                )


def _not_checked(why: UserError, sentence: str) -> None:
    """Print why a check was not made; that a job has just begun is no error."""
    say = print_line if isinstance(why, NotReadyError) else print_error
    say(visible(sentence))


def _round(
    tables: Place,
    names: Sequence[str],
    limits: Callable[[str], "Limits"],
    *,
    dry_run: bool,
    stopping: Flag | None,
) -> tuple[list["Done"], list[str]]:
    """Maintain each table, whether or not another one fails, until the process is to end.

    Returns:
        What was done, and a sentence for each failure.

    Raises:
        UserError: another process maintains the tables.
    """
    from streaming.tables.maintenance import maintain as run
    from streaming.tables.maintenance import maintained
    from streaming.tables.progress_rollup import SERIES

    done: list[Done] = []
    failed: list[str] = []

    def run_table(name: str) -> None:
        done.append(run(tables, name, limits(name), dry_run=dry_run))

    with maintained(tables), Console(stderr=True).status("") as status:
        rolls_up = not dry_run and not set(SERIES).isdisjoint(names)
        if rolls_up and (failure := _failure("the series", partial(_roll_up, tables))):
            failed.append(failure)
            names = [name for name in names if name not in SERIES]  # no day is dropped before it is aggregated
        for name in names:
            if stopping is not None and stopping.is_set():
                break
            status.update(f"table {name}")
            if failure := _failure(name, partial(run_table, name)):
                failed.append(failure)
    return done, failed


def _failure(subject: str, work: Callable[[], None]) -> str | None:
    """Do the work; return a sentence if it fails.

    Raises:
        KeyboardInterrupt: Ctrl-C ended a query of DuckDB, which makes an error of its own of it.
    """
    import duckdb
    from deltalake.exceptions import DeltaError, TableNotFoundError

    from streaming.tables.database import interruptible

    try:
        with interruptible():
            work()
    except TableNotFoundError:  # of a later release than these tables
        return None
    except UserError as error:
        return str(error)
    except (duckdb.Error, DeltaError, OSError) as error:
        return f"Maintenance of {subject} failed: {first_line(error)}."
    return None


def _print_round(done: Sequence["Done"]) -> None:
    """Print a round that changed anything in one line, because there is one every minute."""
    merged, dropped = sum(one.merged for one in done), sum(one.rows_dropped for one in done)
    removed, seconds = sum(one.removed for one in done), round(sum(one.seconds for one in done), 1)
    if merged or dropped or removed:
        print_line(
            f"{merged:,} files merged, {dropped:,} old rows dropped, {removed:,} replaced files removed in {seconds} s",
            merged=merged, rows_dropped=dropped, removed=removed, seconds=seconds,
        )  # fmt: skip


def _print(done: Sequence["Done"], *, dry_run: bool) -> None:
    console = Console(highlight=False)
    grid = Table(box=None, pad_edge=False)
    grid.add_column("table", no_wrap=True)
    for name in ("files before", "files after", "merged", "rows dropped", "files removed", "seconds"):
        grid.add_column(name, justify="right")
    for table in done:
        numbers = (table.files_before, table.files_after, table.merged, table.rows_dropped, table.removed)
        cells = ("-" if number is None else f"{number:,}" for number in numbers)
        grid.add_row(table.table, *cells, f"{table.seconds:.1f}")
    console.print(grid)
    if dry_run:
        console.print("Dry run: nothing was changed.")
