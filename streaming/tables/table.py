"""One Delta table as a view in DuckDB: its large files, and the rows of its many small files in memory.

Opening a file takes a reader about 0.2 ms each time, and the job writes one every second or two. So a long-lived model
reads a small file once, when it first sees it, and keeps its rows until `maintain` has merged it into a large one.
"""

import time
from collections.abc import Container, Iterable, Sequence
from pathlib import Path

import duckdb

from rebalance_model.entities import TIME_MAX
from schemas.tables import ADDED, DERIVED, TABLES, columns
from streaming.base.errors import UserError
from streaming.base.place import Place
from streaming.tables import observations
from streaming.tables.catalog import FUNCTIONS, VIEWS, in_duckdb
from streaming.tables.delta import any_delta_at, check_readable, is_delta_at, readable
from streaming.tables.files import File, files_of, refuse, select
from streaming.tables.folder import folder_at
from streaming.tables.retention import dropped_before
from streaming.tables.unreadable import fault_in

SMALL_ROWS = 20_000
"""Files with fewer rows are kept in memory; not those whose number of rows the log does not have."""
KEPT_ROWS = 500_000
"""The maximum number of a table's rows in memory: about 150 MB. When there are more, the newer half is kept."""
FEW_ROWS = 3_000
"""A table with fewer rows is kept in memory for a single answer, too: to plan each scan of a file takes 1 to 2 ms."""
SCHEMA = "kept"
_LISTED_SECONDS = 60.0
"""The log is listed again after this time, because `maintain` removes commits of the day before."""
_FETCHED_SECONDS = 30.0
"""Fetched files are looked for again after this time; they are not removed within a minute."""


class TableView:
    """A table's snapshot in a database."""

    def __init__(self, tables: Place, name: str) -> None:
        """Open a table.

        Raises:
            TableNotFoundError: there is none.
            UserError: the object store does not answer, or refuses it.
        """
        self.name = name
        self._place = tables / name
        self._delta = any_delta_at(self._place)
        self._listed = time.monotonic()
        """When the log was listed last."""
        self._folder = folder_at(self._place)
        self._listing: Sequence[File] | None = None
        """The files of the snapshot, once something has asked for them: that takes as long as opening the table."""
        self.version = -1
        """Delta's version of the snapshot."""
        self.refused: UserError | None = None
        """Why its rows can't be shown, because it has features of Delta that are not handled; None: they can."""
        self._take_snapshot()
        self._shown: Sequence[File] | None = None
        """The files of the snapshot that the view shows; None: it is not defined yet."""
        self._kept: dict[str, int] = {}
        """The number of rows in memory by file."""
        self._left_out: set[str] = set()
        """The small files beyond the limit."""
        self._is_wanted = False
        """True if its files are fetched and shown; until a query names the table, a view of it is empty: DuckDB opens
        files when a view of them is defined, and a question needs three tables of fourteen."""
        self._is_shown = False
        """True if its files were shown once, and not only an empty table."""
        self._fetched: tuple[int, float] | None = None
        """The version whose files were fetched last, and when."""

    def fetch_newer(self) -> bool:
        """Return whether there is a newer version, for `show`; if that fails, the next call finds it again."""
        if self._folder.is_copy and not self._may_be_newer():
            return False
        with readable(self._place):
            self._delta.update_incremental()
        if self._delta.version() == self.version:
            return False
        self._take_snapshot()
        return True

    def _take_snapshot(self) -> None:
        try:
            check_readable(self._delta)
        except UserError as error:
            self._listing, self.refused = (), error
        else:
            self._listing, self.refused = None, None
        self.version = self._delta.version()

    @property
    def _files(self) -> Sequence[File]:
        if self._listing is None:
            self._listing = files_of(self.name, self._delta)
        return self._listing

    @property
    def shown_files(self) -> Sequence[File]:
        """The files of the snapshot that the view shows, or will show."""
        return self._files if self._shown is None else self._shown

    def has_fewer_rows(self, number: int) -> bool:
        """Return whether the snapshot has fewer rows; False if the log does not have their number."""
        return all(file.rows for file in self._files) and sum(file.rows for file in self._files) < number

    @property
    def is_small(self) -> bool:
        """Return whether it takes less to read its rows once than to plan each scan of its files."""
        return self._is_wanted and bool(self._files) and self.has_fewer_rows(FEW_ROWS)

    @property
    def is_lacking(self) -> bool:
        """Return whether there is no view of the table yet, because no query has named it."""
        return self._shown is None and not self._is_wanted

    def _may_be_newer(self) -> bool:
        """Return whether the next commit is there, which takes one small request; Delta itself lists the log."""
        now = time.monotonic()
        if now - self._listed < _LISTED_SECONDS and not self._folder.has(f"_delta_log/{self.version + 1:020}.json"):
            return False
        self._listed = now
        return True

    @property
    def is_here(self) -> bool:
        """Return whether a query can read the files that are shown."""
        if not self._is_shown or not self._folder.is_copy:
            return self._is_shown
        return self._fetched is not None and time.monotonic() - self._fetched[1] < _FETCHED_SECONDS

    def want(self) -> None:
        """Let `show` fetch and show the files from now on, because a query needs them."""
        self._is_wanted = True

    def fetch(self) -> None:
        """Fetch the files of the snapshot that are not here, if a query has named the table.

        Raises:
            UserError: the object store does not answer, or refuses it.
        """
        version, fetched_at = self._fetched or (-1, 0.0)
        if not self._is_wanted or (version == self.version and time.monotonic() - fetched_at < _FETCHED_SECONDS):
            return
        files = [file for file in self._files if file.path not in self._kept]
        try:
            self._folder.fetch(files)
        except FileNotFoundError:
            raise UserError(f"Files of the table {self.name} were removed meanwhile: try again.") from None
        self._fetched = (self.version, time.monotonic())

    def show(self, cursor: duckdb.DuckDBPyConnection, *, keep: bool) -> None:
        """Define the view again, in the caller's transaction; a query of one that is `refused` fails, and says why.

        ``keep``: keep the rows of small files in memory from now on.
        """
        if self.refused is not None:
            self._kept, self._shown = {}, ()
            cursor.execute(f"CREATE OR REPLACE VIEW {self.name} AS\n{refuse(self.name, str(self.refused))}")
            return
        if keep and self._is_wanted and self.name in DERIVED:
            self._keep(cursor)
        files = [file for file in self._files if self._is_wanted and file.path not in self._kept]
        parts = [select(self.name, self._folder.path, files)] if files or not self._kept else []
        if self._kept:
            names = ", ".join(f'"{column.name}"' for column in columns(self.name))
            parts.append(f"SELECT {names} FROM {SCHEMA}.{self.name}")  # noqa: S608  the contract's names
        rows = "\nUNION ALL\n".join(parts)
        cursor.execute(f"CREATE OR REPLACE VIEW {self.name} AS\n{rows}")
        self._shown = self._files

    def note_shown(self) -> None:
        """Note that the transaction of `show` was committed."""
        self._is_shown = self._is_wanted

    def dropped_before(self) -> int | None:
        """Return the time before which rows were dropped by age, epoch milliseconds; None: none ever were."""
        return dropped_before(self._delta, self.name)

    def fault(self) -> UserError | None:
        """Return why the table can't be read: it is refused, or a file is damaged; None: it can be, or has copies."""
        if self.refused is not None:
            return self.refused
        return None if self._folder.is_copy else fault_in(self.name, self._folder.path, self._files)

    def forget(self) -> None:
        """Discard the rows in memory because they may be wrong: the next `show` reads them again."""
        self._kept = {}

    def _keep(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Read the new small files; if files were removed, or there are too many rows, read all again."""
        small = {file.path: file for file in self._files if 0 < file.rows < SMALL_ROWS}
        fresh = [file for path, file in small.items() if path not in self._kept and path not in self._left_out]
        rows, into = sum(self._kept.values()) + sum(file.rows for file in fresh), f"INSERT INTO {SCHEMA}.{self.name}"
        if not self._kept or not self._kept.keys() <= small.keys() or rows > KEPT_ROWS:
            fresh = _newest(small.values())
            self._left_out = small.keys() - {file.path for file in fresh}
            self._kept = {}
            into = f"CREATE OR REPLACE TABLE {SCHEMA}.{self.name} AS"
        if fresh or not self._kept:
            cursor.execute(f"{into} {select(self.name, self._folder.path, fresh)}")
            self._kept |= {file.path: file.rows for file in fresh}


def _newest(small: Iterable[File]) -> list[File]:
    """Return the newest files with at most half the rows that may be kept, to stay below the limit for a while."""
    newest, left = [], KEPT_ROWS // 2
    for file in sorted(small, key=lambda file: file.begins, reverse=True):
        left -= file.rows
        if left < 0:
            break
        newest.append(file)
    return newest


def register(connection: duckdb.DuckDBPyConnection, tables: Place) -> None:
    """Define the current tables, views and functions in a database, under their names.

    From a database file every client of DuckDB can use them: its shell, another language, a notebook.
    """
    for table in TABLES:  # empty at first, because DuckDB reads the files below a view when it is defined
        connection.execute(f"CREATE OR REPLACE VIEW {table} AS {select(table, Path(), [])}")
    define_times(connection)
    define(connection, (*VIEWS, *FUNCTIONS))
    for table in reversed([table for table in TABLES if table not in ADDED or is_delta_at(tables / table)]):
        view = TableView(tables, table)
        view.want()
        view.fetch()
        view.show(connection, keep=False)


def define_times(connection: duckdb.DuckDBPyConnection) -> None:
    """Define what converts times in epoch milliseconds: `from_ms` to a timestamp, and three for queries of our own.

    ``in_ms(x)`` is a timestamp in epoch milliseconds, and any other value itself, but for timestamps in a struct;
    ``day_of(ms)`` is the day by which tables are partitioned; ``age_ms(seen_at, ms)`` the age of a timestamp at an
    instant, 0 if it is later (clock skew).
    """
    from_ms = f"make_timestamptz(least(ms, {TIME_MAX}) * 1000)"
    connection.execute(f"CREATE OR REPLACE MACRO from_ms(ms) AS {from_ms}")
    connection.execute(f"CREATE OR REPLACE MACRO day_of(ms) AS {observations.day('ms')}")
    age = "CASE WHEN seen_at IS NOT NULL THEN greatest(0, ms - epoch_ms(seen_at)) END"
    connection.execute(f"CREATE OR REPLACE MACRO age_ms(seen_at, ms) AS {age}")
    of_each = "(x TIMESTAMPTZ[]) AS list_transform(x, lambda t: epoch_ms(t)), (x DATE) AS x, (x) AS x"
    connection.execute(f"CREATE OR REPLACE MACRO in_ms(x TIMESTAMPTZ) AS epoch_ms(x), {of_each}")


def define(connection: duckdb.DuckDBPyConnection, names: Container[str]) -> None:
    """Define views and functions over the tables; what they use must be defined, or among them."""
    for defined in in_duckdb().values():
        if (name := defined.name) in names:
            parameters = defined.parameters or ()
            head = f"MACRO {name}({', '.join(parameters)}) AS TABLE" if parameters else f"VIEW {name} AS"
            connection.execute(f"CREATE OR REPLACE {head}\n{defined.called(parameters)}")
