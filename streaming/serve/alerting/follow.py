"""Read the new rows of a table commit by commit from the Delta log, without reading the whole table again.

A commit that removes files (compaction, retention) has no new rows, whatever it adds, so `maintain` may run at the same
time.

The tables of the alerts: `alert_deliveries`, written by one process, and `alert_controls`, written by any.

The position in `anomalies` is stored as a Delta transaction id of the ledger: decisions and the version on which they
are based are one commit. After a crash before it, the same decisions are made again; after a later one they are read.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec
from deltalake import CommitProperties, Transaction
from deltalake.exceptions import TableNotFoundError

from checkpoints.manifest import SWAP_MARK
from schemas.rows import AlertControl, AlertDelivery
from schemas.tables import columns
from streaming.base.errors import UserError
from streaming.base.files import FileLock, is_locked
from streaming.base.place import Place
from streaming.tables.delta import delta_at, readable
from streaming.tables.files import File
from streaming.tables.folder import TableFolder, folder_at

if TYPE_CHECKING:
    import pyarrow as pa  # imported where rows are read or written: a status reads none here


class FollowedCommit(NamedTuple):
    """An append."""

    time: int
    """By the writer's clock, in epoch milliseconds."""
    rows: "pa.Table"
    """The rows, with the requested columns."""


class LostError(Exception):
    """The log or files of unread versions have been removed: read the whole table."""


class SwappedError(LostError):
    """All rows of the table were replaced: read the whole table."""


class Follower:
    """Reads a table from a version on."""

    def __init__(self, table: Place, columns: Sequence[str] = (), version: int | None = None) -> None:
        """Begin after a version, None: after the newest; without columns say only whether there were rows.

        Raises:
            UserError: the table does not exist.
        """
        self._table = table
        self._folder = folder_at(table)
        self._columns = list(columns)
        try:
            delta = delta_at(table)
        except TableNotFoundError:
            raise UserError(
                f"There is no table {table.name} in {table.parent}: start `rebalance-watch run`, which creates it, "
                "or set another --root."
            ) from None
        self.table_id = str(delta.metadata().id)
        self.version = delta.version() if version is None else version

    def new(self) -> Iterator[FollowedCommit]:
        """Yield the new appends, oldest first, each once.

        Raises:
            SwappedError: a rebuild replaced all rows.
            LostError: some appends have been removed.
            UserError: the table got features that are not handled, or the object store fails.
        """
        while (actions := self._actions(self.version + 1)) is not None:
            if any("protocol" in action for action in actions):
                with readable(self._table):
                    delta_at(self._table)  # raises the UserError; not if they are gone again
            if self._columns and any(SWAP_MARK in action.get("commitInfo", ()) for action in actions):
                raise SwappedError(f"the content of {self._table.name}")
            rows, time = self._rows(actions), _time(actions)
            self.version += 1
            if rows is not None:
                yield FollowedCommit(time, rows)

    def whole(self, predicate: str | None = None) -> "pa.RecordBatchReader":
        """Read all rows of the newest version, unordered, and continue from that version.

        Raises:
            UserError: the object store fails, also later, while the rows are read.
        """
        import pyarrow as pa

        with readable(self._table):
            delta = delta_at(self._table)
            self.version = delta.version()
            rows = pa.RecordBatchReader.from_stream(delta.scan(self._columns, predicate))
        return pa.RecordBatchReader.from_batches(rows.schema, self._answered(rows))

    def check(self) -> None:
        """Check that the table has not been replaced.

        Raises:
            UserError: it was removed or replaced.
        """
        try:
            same = str(delta_at(self._table).metadata().id) == self.table_id
        except TableNotFoundError:
            same = False
        if not same:
            raise UserError(f"The tables in {self._table.parent} have been replaced: restart this command.")

    def last_append(self) -> int | None:
        """Return the time of the last append in the log, in epoch milliseconds; None if there is none."""
        from streaming.tables.maintenance import MARK

        with readable(self._table):
            delta = delta_at(self._table)
            for limit in (_RECENT_COMMITS, None):  # all of them may be 100,000 files
                writes = [one for one in delta.history(limit) if one.get("operation") in _APPENDS and MARK not in one]
                if writes:
                    return max(int(one["timestamp"]) for one in writes)
        return None

    def _answered(self, rows: "pa.RecordBatchReader") -> Iterator["pa.RecordBatch"]:
        with readable(self._table):
            yield from rows

    def _actions(self, version: int) -> list[dict[str, Any]] | None:
        try:
            with readable(self._table):
                text = self._folder.read(f"_delta_log/{version:020}.json").decode()
        except FileNotFoundError:
            if _checkpointed(self._folder) >= version:
                raise LostError(f"version {version} of {self._table.name}") from None
            return None
        return [json.loads(line) for line in text.splitlines() if line]

    def _rows(self, actions: list[dict[str, Any]]) -> "pa.Table | None":
        """Return the rows that a commit appends; None if it is not an append."""
        import pyarrow as pa

        added = [action["add"] for action in actions if "add" in action]
        if any("remove" in action for action in actions) or not any(add["dataChange"] for add in added):
            return None
        if not self._columns:
            return pa.table({})
        try:
            with readable(self._table):
                return self._appended(added)
        except FileNotFoundError:
            raise LostError(f"a file of {self._table.name}") from None

    def _appended(self, added: Sequence[dict[str, Any]]) -> "pa.Table":
        import pyarrow as pa

        self._folder.fetch([File(add["path"], add["size"]) for add in added])
        return pa.concat_tables([self._read(unquote(add["path"])) for add in added], promote_options="default")

    def _read(self, path: str) -> "pa.Table":
        # Read as a single file, not as a data set, which would add partition columns from the path.
        from pyarrow import parquet

        with parquet.ParquetFile(self._folder.path / path) as file:
            return file.read(self._columns)


_APPENDS = {"WRITE", "STREAMING UPDATE"}
_RECENT_COMMITS = 200


def _time(actions: list[dict[str, Any]]) -> int:
    return max(
        (int(action["commitInfo"].get("timestamp", 0)) for action in actions if "commitInfo" in action), default=0
    )


def _checkpointed(folder: TableFolder) -> int:
    """Return the version of the table's last checkpoint; -1 if there is none."""
    try:
        return int(json.loads(folder.read("_delta_log/_last_checkpoint"))["version"])
    except (FileNotFoundError, ValueError, KeyError):
        return -1


DELIVERIES, CONTROLS = "alert_deliveries", "alert_controls"
_LOCK = ".alert.lock"
_LOCK_SECONDS = 2  # `alert status` may hold it for a moment
_Row = TypeVar("_Row", bound=msgspec.Struct)


class Ledger:
    """The log of decisions and deliveries."""

    def __init__(self, tables: Place) -> None:
        """Open the table.

        Raises:
            UserError: it does not exist.
        """
        self._follower = Follower(tables / DELIVERIES, columns_of(DELIVERIES))
        self._table = delta_at(tables / DELIVERIES)

    def rows(self) -> list[AlertDelivery]:
        """Return all rows in order."""
        return sorted(converted(self._follower.whole().read_all(), AlertDelivery), key=lambda row: row.number)

    def position(self, followed: str) -> int | None:
        """Return the last processed version of a table (by its id); None if there is none."""
        self._table.update_incremental()
        return self._table.transaction_version(_application(followed))

    def append(self, rows: Sequence[AlertDelivery], followed: str, version: int) -> None:
        """Append decisions together with the position in the table on which they are based."""
        from streaming.tables.append import append

        transaction = CommitProperties(app_transactions=[Transaction(_application(followed), version)])
        append(self._table, _arrow(rows, DELIVERIES), transaction)


def write_control(tables: Place, control: AlertControl) -> None:
    """Write a user command for the alert process.

    Raises:
        UserError: the table does not exist, or has not the columns of this release yet; or a text is not UTF-8.
    """
    from streaming.tables.append import append

    Follower(tables / CONTROLS)  # raises the UserError
    try:
        rows = _arrow([control], CONTROLS)
    except UnicodeEncodeError as error:
        raise UserError(f"{error.object!a} is not UTF-8: write it without these bytes.") from None
    table = delta_at(tables / CONTROLS)
    if lacking := set(rows.schema.names) - {field.name for field in table.schema().fields}:
        raise UserError(
            f"The table {CONTROLS} lacks {', '.join(sorted(lacking))}: restart `rebalance-watch run`, which adds what "
            "a new release needs."
        )
    append(table, rows)


def columns_of(table: str) -> list[str]:
    """Return the names of a table's columns."""
    return [column.name for column in columns(table)]


def converted(rows: "pa.Table", kind: type[_Row]) -> Iterator[_Row]:
    """Convert the rows of a table to their type."""
    from schemas.arrow import in_epoch_ms

    return (msgspec.convert(row, kind) for row in in_epoch_ms(rows).to_pylist())


def controls_of(rows: "pa.Table") -> list[AlertControl]:
    """Convert rows of user commands, oldest first."""
    return sorted(converted(rows, AlertControl), key=lambda row: row.time)


def claimed(root: Path) -> FileLock:
    """Lock a root for one alert process until the lock is closed.

    Raises:
        UserError: another alert process is running.
    """
    root.mkdir(parents=True, exist_ok=True)
    return FileLock(
        root / _LOCK,
        f"Another `rebalance-watch alert` is running on {root}: stop it, or set another --root.",
        patience_seconds=_LOCK_SECONDS,
    )


def is_claimed(root: Path) -> bool:
    """Return whether an alert process is running on a root."""
    return is_locked(root / _LOCK)


def _application(followed: str) -> str:
    return f"alert/{followed}"


def _arrow(rows: Sequence[AlertDelivery] | Sequence[AlertControl], table: str) -> "pa.Table":
    from schemas.arrow import table_of

    return table_of(table, [msgspec.structs.asdict(row) for row in rows])
