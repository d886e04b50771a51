"""Read the Delta tables without Spark: deltalake lists a table's files, DuckDB runs the SQL over them.

A `ReadModel` may live as long as a dashboard does, and be used from many threads: each query has its own cursor, and
`refresh` replaces the snapshots of all tables at once.
"""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
from deltalake.exceptions import TableNotFoundError

from schemas.tables import ADDED, TABLES
from streaming.base.errors import NotReadyError, QueryError, UserError, first_line
from streaming.base.files import Closable
from streaming.base.language import gettext
from streaming.base.limits import SPILL_BYTES
from streaming.base.place import Place, root_of
from streaming.tables.catalog import FUNCTIONS, VIEWS, definition_meaning, expanded, names_in, tables_in
from streaming.tables.database import CTRL_C, connected, interruptible
from streaming.tables.delta import is_delta_at
from streaming.tables.files import select
from streaming.tables.folder import folder_at
from streaming.tables.guard import Guard, meant, relation_columns
from streaming.tables.table import SCHEMA, TableView, define, define_times
from streaming.tables.unreadable import cause, damaged

if TYPE_CHECKING:
    import pyarrow as pa  # imported where it is needed: it takes a quarter of the time of a question

_OF_FILES = (duckdb.IOException, duckdb.InvalidInputException, duckdb.SerializationException)
"""Errors that a file may have caused, or the query."""
_MEANT = ("Did you mean", "Candidate bindings", "Candidate functions")
"""The beginning of the line in which DuckDB names what may be meant."""
_BATCH_ROWS = 10_000
ANSWER_ROWS = 10_000
"""Default limit of the rows of a user's own SQL."""
_ASKED = 32
"""Answers that `ReadModel.rows_once` keeps."""

_LARGE = ("telemetry", "queue_progress")
"""The tables that grow fastest."""
_ROW_GROUP = 122_880
"""The rows that DuckDB reads by one thread."""

_ALL = frozenset({*TABLES, *VIEWS, *FUNCTIONS})
_LISTS = re.compile(r"\b(show|describe|desc)\b", re.IGNORECASE)
"""Statements that list all that is defined, as SHOW TABLES does."""
_SHOW_FUNCTIONS = re.compile(r"\s*show\s+functions\s*;?\s*", re.IGNORECASE)

Parameters = Sequence[object] | Mapping[str, object]
Row = dict[str, Any]


class SqlRows(NamedTuple):
    """The result of a user's own SQL."""

    table: "pa.Table"
    cut: bool
    """True if there are more rows than requested."""


class ReadModel(Closable):
    """The tables at the last `refresh`, for users' SQL and for the queries of reports.

    Snapshots are taken in the reverse of the order in which the job appends: an incident that is visible has its
    evidence in the other tables.
    """

    def __init__(self, tables: Place, *, spill: Path | None = None, once: bool = False) -> None:
        """Open the tables.

        ``spill`` is an existing folder for sorts and aggregates that are larger than memory; None: a temporary one.
        ``once``: it is for one answer; one of small tables takes one thread, because the others only wait.

        Raises:
            NotReadyError: the folder has no tables, or one is missing.
            UserError: a table is damaged.
        """
        self.version = 0
        """Rises with each `refresh` that found new rows; live pages compare it."""
        self.checkpoints = root_of(tables) / "checkpoints"
        """The checkpoints of the job that writes the tables, if it runs on this machine."""
        tables = tables.resolve() if isinstance(tables, Path) else tables
        self._tables = tables
        self._views = _opened(tables)
        self._refreshing = threading.Lock()
        self._unseen: set[TableView] = set()
        """The views with new rows that no query sees yet; more than one refresh's if a refresh failed."""
        self._keeps = False
        self._spilled = TemporaryDirectory(prefix="rebalance-watch-") if spill is None else None
        folder = spill if self._spilled is None else Path(self._spilled.name)
        threads = 1 if once and all(self._view(table).has_fewer_rows(_ROW_GROUP) for table in _LARGE) else None
        self._database = connected(folder_at(tables).path, spill=folder, threads=threads)
        self._database.execute(f"CREATE SCHEMA {SCHEMA}")
        define_times(self._database)
        self._lacking = [
            table for table in TABLES if table in ADDED and table not in {view.name for view in self._views}
        ]
        """Tables that the job has not created yet: empty."""
        for table in self._lacking:
            self._database.execute(f"CREATE VIEW {table} AS {select(table, Path(), [])}")
        self._defining = threading.Lock()
        self._names: frozenset[str] = frozenset(TABLES)
        """The tables, and the views and functions that a query has needed; all of them take 0.15 s."""
        self._database.execute(f"SET max_temp_directory_size = '{SPILL_BYTES // 10**9}GB'")
        self._database.execute("SET GLOBAL TimeZone = 'UTC'")
        self._database.execute("SET parquet_metadata_cache = true; SET python_enable_replacements = false")
        self._database.execute("SET lock_configuration = true")
        self._guard = Guard(self._database)
        self._asked: dict[tuple[object, ...], list[Row]] = {}

    def close(self) -> None:
        """Release the snapshots."""
        self._database.close()
        if self._spilled is not None:
            self._spilled.cleanup()

    def refresh(self) -> bool:
        """Load newly appended rows, for a long-lived model; safe while queries run. Return whether there are any.

        Without new rows it takes milliseconds. A running query keeps the snapshot with which it began. From the first
        call on, the rows of small files are kept in memory, see `table`.
        """
        with self._refreshing:
            for table in [table for table in self._lacking if is_delta_at(self._tables / table)]:
                self._lacking.remove(table)
                self._views.append(TableView(self._tables, table))
                self._unseen.add(self._views[-1])
            for view in self._views:
                if view.fetch_newer():
                    self._unseen.add(view)
            if self._unseen or not self._keeps:
                shown = [view for view in self._views if view in self._unseen or not self._keeps]
                self._keeps = False  # if this fails, the next refresh starts again
                self._show(shown, keep=True)
                self._keeps = True
            new = bool(self._unseen)
            self._unseen.clear()
            self.version += new
            return new

    def ask(self, query: str, parameters: Parameters = (), *, limit: int = ANSWER_ROWS) -> SqlRows:
        """Run a user's own SQL: one SELECT over tables, views and functions, and nothing else.

        ``SHOW FUNCTIONS``, which DuckDB lacks, lists the functions with their parameters.

        Nothing limits its time here, nor all of its memory: `streaming.queries.sql_process` does. Of more rows than
        ``limit`` the first are returned, and `SqlRows.cut` says so.

        Raises:
            QueryError: the query is not allowed (see `guard`), or DuckDB reports an error.
            UserError: a file of the tables can't be read.
        """
        if _SHOW_FUNCTIONS.fullmatch(query) is not None:
            return SqlRows(_functions(), cut=False)
        self._guard.check(query)
        names = _ALL if _LISTS.search(query) else names_in(query)
        self._define_tables()  # all, because DuckDB names those that may be meant
        self._show_for(names)
        with self._cursor(query) as cursor:
            self._define(cursor, names)
            found = _first(cursor, query, parameters, limit + 1)
        return SqlRows(found.slice(0, limit), cut=found.num_rows > limit)

    def sql(self, query: str, parameters: Parameters = ()) -> "pa.Table":
        """Run one of the program's own queries; `ask` is for users' SQL.

        Its parameters are ``?``, ``$1`` or ``$name``; within a call ``$1`` or ``$name``.

        Times are timestamps here, and epoch milliseconds in `rows` and `scan`. A parameter that is epoch milliseconds
        is converted in the query: ``from_ms($since)``.

        Raises:
            QueryError: DuckDB reports an error.
            UserError: a file of the tables can't be read.
        """
        self._show_for(names_in(query))
        with self._cursor(query) as cursor:
            # A relation binds the query once more, for a quarter of the time of a short answer.
            return cursor.execute(self._defined(cursor, query), parameters).to_arrow_table()

    def rows(self, query: str, parameters: Parameters = ()) -> list[Row]:
        """Run one of the program's own queries; return the rows as dictionaries, times as epoch milliseconds.

        Without Arrow, which takes longer to import than most questions take to answer.
        """
        self._show_for(names_in(query))
        with self._cursor(query) as cursor:
            in_ms = f"SELECT in_ms(COLUMNS(*)) FROM ({self._defined(cursor, query)})"  # noqa: S608  ours
            cursor.execute(in_ms, parameters)
            columns = [name for name, *_ in cursor.description or ()]
            return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]

    def rows_once(self, query: str, parameters: Mapping[str, object]) -> list[Row]:
        """Return `rows`, and the same ones until the parameters or the tables change: one answer asks several times."""
        asked = (self.version, query, *parameters.values())
        if (rows := self._asked.get(asked)) is None:
            rows = self.rows(query, parameters)
            if len(self._asked) >= _ASKED:
                self._asked.clear()
            self._asked[asked] = rows
        return rows

    def scan(self, query: str, parameters: Parameters = ()) -> Iterator["pa.RecordBatch"]:
        """Run one of the program's own queries in batches, for results larger than memory: sorting spills to disk."""
        from schemas.arrow import in_epoch_ms

        self._show_for(names_in(query))
        with self._cursor(query) as cursor:
            rows = _relation(cursor, self._defined(cursor, query), parameters)
            yield from map(in_epoch_ms, rows.to_arrow_reader(_BATCH_ROWS))

    def span(self, table: str) -> tuple[int, int] | None:
        """Return the earliest and the latest ``time`` of a table's rows, epoch milliseconds; None if it is empty.

        The Delta log has them for each file, so none of the files, which may be hundreds, is opened. If it lacks them
        (statistics are optional), the rows are read.
        """
        view = self._view(table)
        if view.refused is not None:
            raise view.refused
        files = view.shown_files
        if not all(file.begins and file.ends for file in files):
            [row] = self.rows(f"SELECT min(t.time) AS first, max(t.time) AS last FROM {table} t")  # noqa: S608  ours
            return None if row["first"] is None else (row["first"], row["last"])
        return (min(file.begins for file in files), max(file.ends for file in files)) if files else None

    def dropped_before(self, table: str) -> int | None:
        """Return the time before which `maintain` dropped rows of a table by age, epoch ms; None: it never did."""
        return self._view(table).dropped_before()

    def _view(self, table: str) -> TableView:
        return next(view for view in self._views if view.name == table)

    @contextmanager
    def _cursor(self, query: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection for one query: a DuckDB connection runs only one query at a time."""
        try:
            with self._database.cursor() as cursor:
                yield cursor
        except duckdb.InterruptException:
            raise
        except duckdb.Error as error:
            read = tables_in(query)
            fault = self._fault([view for view in self._views if view.name in read], error)
            hint = meant(str(error), query, partial(relation_columns, self._database))
            raise fault or QueryError(
                gettext("The query failed: {error}", error=f"{_message_of(error)}{hint}.")
            ) from None
        except RuntimeError as error:
            if str(error) != CTRL_C:
                raise
            raise KeyboardInterrupt from None

    def _defined(self, cursor: duckdb.DuckDBPyConnection, query: str) -> str:
        """Return a query of ours with its definitions in place, or by name if the model is refreshed."""
        if not self._keeps:
            return expanded(query)
        self._define(cursor, names_in(query))
        return query

    def _define(self, cursor: duckdb.DuckDBPyConnection, names: frozenset[str]) -> None:
        """Define those of the views and functions that are not defined yet."""
        if names <= self._names:
            return
        with self._defining:
            define(cursor, names - self._names)
            self._names |= names

    def _define_tables(self) -> None:
        """Define the tables that no query has needed yet, as empty ones."""
        with self._refreshing:
            if lacking := [view for view in self._views if view.is_lacking]:
                self._show(lacking, keep=self._keeps)

    def _show_for(self, names: frozenset[str]) -> None:
        """Show the files of the tables among the names that a query needs; fetch them, if they are not here."""
        lacking = [view for view in self._views if view.name in names and not view.is_here]
        if lacking:
            with self._refreshing:
                for view in lacking:
                    view.want()
                self._show(lacking, keep=self._keeps)

    def _show(self, views: Sequence[TableView], *, keep: bool) -> None:
        """Replace the snapshots of all tables at once."""
        for view in views:
            view.fetch()
        with self._database.cursor() as cursor, interruptible():
            cursor.execute("BEGIN")
            try:
                for view in views:
                    view.show(cursor, keep=keep or view.is_small)
                cursor.execute("COMMIT")
                for view in views:
                    view.note_shown()
            except duckdb.InterruptException:
                raise
            except duckdb.Error as error:
                for view in self._views:
                    view.forget()
                if (fault := self._fault(views, error)) is None:
                    raise
                raise fault from None

    def _fault(self, views: Sequence[TableView], error: duckdb.Error) -> UserError | None:
        """Return the error about a file of these views, if DuckDB's may be about one; None if it is not."""
        if not isinstance(error, _OF_FILES) and type(error) is not duckdb.Error:
            return None
        if (fault := next(filter(None, (view.fault() for view in views)), None)) is not None:
            return fault
        if type(error) is duckdb.Error and views:  # of the content: the reader of Parquet has no class and no names
            names = ", ".join(view.name for view in views)
            return damaged(f"A file of the tables {names} in {self._tables}", cause(error))
        return None


def _functions() -> "pa.Table":
    """Return the functions over the tables, how they are called, and what a row of each is."""
    import pyarrow as pa

    rows = [
        {
            "function": f"{name}({', '.join(of)})",
            "parameters": ", ".join(f"{one} TIMESTAMPTZ" for one in of),
            "meaning": definition_meaning(name).split(". ")[0].removesuffix("."),
        }
        for name, of in sorted(FUNCTIONS.items())
    ]
    rows.append({"function": "from_ms(ms)", "parameters": "ms BIGINT", "meaning": "Epoch milliseconds as a timestamp"})
    return pa.Table.from_pylist(rows)


def _message_of(error: duckdb.Error) -> str:
    """Return what DuckDB says of an error, with the names that may be meant."""
    lines = str(error).splitlines()
    meant = [line.strip() for line in lines[1:] if line.startswith(_MEANT)]
    hint = f" ({meant[0][0].lower()}{meant[0][1:].removesuffix('.')})" if meant else ""
    return f"{first_line(error).removesuffix('!')}{hint}"


def _relation(cursor: duckdb.DuckDBPyConnection, query: str, parameters: Parameters) -> duckdb.DuckDBPyRelation:
    relation = cursor.sql(query, params=parameters)
    if relation is None:
        raise QueryError(gettext("Only a single SELECT is allowed."))
    return relation


def _first(cursor: duckdb.DuckDBPyConnection, query: str, parameters: Parameters, count: int) -> "pa.Table":
    """Return the first rows of a result; the others are never computed."""
    import pyarrow as pa

    reader = _relation(cursor, query, parameters).to_arrow_reader(min(count, _BATCH_ROWS))
    batches, left = [], count
    for batch in reader:
        batches.append(batch.slice(0, left))
        left -= batches[-1].num_rows
        if not left:
            break
    return pa.Table.from_batches(batches, reader.schema)


def _opened(tables: Place) -> list[TableView]:
    """Open all tables, in the reverse of the order in which the job appends."""
    names = tuple(reversed(TABLES))
    if isinstance(tables, Path):
        return [view for table in names if (view := _open(tables, table)) is not None]
    # Each takes several requests in turn. The order counts for the last one, which looks for newer commits.
    with ThreadPoolExecutor(len(names)) as pool:
        views = [view for view in pool.map(partial(_open, tables), names) if view is not None]
    for view in views:
        view.fetch_newer()
    return views


def _open(tables: Place, table: str) -> TableView | None:
    """Open a table; None: it is one of `ADDED`, which the job has not created yet."""
    try:
        return TableView(tables, table)
    except TableNotFoundError:
        if not any(is_delta_at(tables / other) for other in TABLES):
            raise NotReadyError(
                f"There are no tables in {tables}: run `rebalance-watch demo` or `rebalance-watch run`, or set "
                "another root with --root."
            ) from None
        if table in ADDED:
            return None
        raise NotReadyError(
            f"The table {table} is missing in {tables}: start `rebalance-watch run`, which creates it or explains "
            "the cause."
        ) from None
