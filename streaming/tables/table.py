"""One Delta table as a view in DuckDB: its large files, and the rows of its many small files in memory.

Opening a file takes a reader about 0.2 ms each time, and the job writes one every second or two. So a long-lived model
reads a small file once, when it first sees it, and keeps its rows until `maintain` has merged it into a large one.
"""

from collections.abc import Iterable, Sequence

import duckdb
from deltalake import DeltaTable

from schemas.tables import DERIVED, columns
from streaming.tables.files import File, files_of, folder_of, select

SMALL_ROWS = 20_000
"""Files with fewer rows are kept in memory."""
KEPT_ROWS = 500_000
"""The maximum number of a table's rows in memory: about 150 MB. When there are more, the newer half is kept."""
SCHEMA = "kept"


class TableView:
    """A table's snapshot in a database."""

    def __init__(self, name: str, delta: DeltaTable) -> None:
        self.name = name
        self._delta = delta
        self._folder = folder_of(delta)
        self._files = files_of(name, delta)
        self.version = delta.version()
        """Delta's version of the snapshot."""
        self.shown: Sequence[File] = ()
        """The files of the snapshot that the view shows."""
        self._kept: dict[str, int] = {}
        """The number of rows in memory by file."""
        self._left_out: set[str] = set()
        """The small files beyond the limit."""

    def look(self) -> bool:
        """Return whether there is a newer version, for `show`; if that fails, the next call finds it again."""
        self._delta.update_incremental()
        if self._delta.version() == self.version:
            return False
        self._files = files_of(self.name, self._delta)
        self.version = self._delta.version()
        return True

    def show(self, cursor: duckdb.DuckDBPyConnection, *, keep: bool) -> None:
        """Define the view again, in the caller's transaction.

        Args:
            cursor: of the database.
            keep: whether to keep the rows of small files in memory from now on.
        """
        if keep and self.name in DERIVED:
            self._keep(cursor)
        rows = select(self.name, self._folder, (file for file in self._files if file.path not in self._kept))
        if self._kept:
            names = ", ".join(f'"{column.name}"' for column in columns(self.name))
            rows += f"\nUNION ALL\nSELECT {names} FROM {SCHEMA}.{self.name}"
        cursor.execute(f"CREATE OR REPLACE VIEW {self.name} AS\n{rows}")
        self.shown = self._files

    def forget(self) -> None:
        """Discard the rows in memory because they may be wrong: the next `show` reads them again."""
        self._kept = {}

    def _keep(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Read the new small files; if files were removed, or there are too many rows, read all again."""
        small = {file.path: file for file in self._files if file.rows < SMALL_ROWS}
        fresh = [file for path, file in small.items() if path not in self._kept and path not in self._left_out]
        rows = sum(self._kept.values()) + sum(file.rows for file in fresh)
        if not self._kept or not self._kept.keys() <= small.keys() or rows > KEPT_ROWS:
            fresh = _newest(small.values())
            self._left_out = small.keys() - {file.path for file in fresh}
            self._kept = {}
            nothing = select(self.name, self._folder, [])
            cursor.execute(f"CREATE OR REPLACE TABLE {SCHEMA}.{self.name} AS {nothing}")
        if fresh:
            self._kept |= {file.path: file.rows for file in fresh}
            cursor.execute(f"INSERT INTO {SCHEMA}.{self.name} {select(self.name, self._folder, fresh)}")


def _newest(small: Iterable[File]) -> list[File]:
    """Return the newest files with at most half the rows that may be kept, to stay below the limit for a while."""
    newest, left = [], KEPT_ROWS // 2
    for file in sorted(small, key=lambda file: file.begins, reverse=True):
        left -= file.rows
        if left < 0:
            break
        newest.append(file)
    return newest
