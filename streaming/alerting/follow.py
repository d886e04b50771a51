"""New rows of a table, commit by commit, from Delta's own log: the table as a whole is never read again.

A commit that takes files away (compaction, a delete by retention) brings no new rows, whatever it adds. So `maintain`
may do its work meanwhile.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from checkpoints.generation import SWAP_MARK
from streaming.errors import UserError
from streaming.maintenance import MARK


class Commit(NamedTuple):
    """An append."""

    time: int
    """By the clock of who wrote it."""
    rows: pa.Table
    """With the columns that were asked for."""


class LostError(Exception):
    """The log or the files of versions that were not read yet are gone: read the table as a whole."""


class SwappedError(LostError):
    """The table has other rows now, as a whole: read them."""


class Follower:
    """Reads a table on from a version."""

    def __init__(self, table: Path, columns: Sequence[str] = (), version: int | None = None) -> None:
        """Begin after a version; None: after the newest.

        Args:
            table: the table's folder.
            columns: what to read of each row; none: only that there were rows.
            version: the last version that is known.

        Raises:
            UserError: there is no such table.
        """
        self._table = table
        self._columns = list(columns)
        try:
            there = DeltaTable(table)
        except TableNotFoundError:
            raise UserError(
                f"There is no table {table.name} in {table.parent}: start `rebalance-watch run`, which makes it, or "
                "name another root with --root."
            ) from None
        self.table_id = str(there.metadata().id)
        self.version = there.version() if version is None else version

    def new(self) -> Iterator[Commit]:
        """The appends since then, oldest first; each that was taken is not given again.

        Raises:
            SwappedError: a rebuild put other rows in the place of all that was given.
            LostError: some of it can't be read any more.
        """
        while (actions := self._actions(self.version + 1)) is not None:
            if self._columns and any(SWAP_MARK in action.get("commitInfo", ()) for action in actions):
                raise SwappedError(f"what {self._table.name} had")
            rows, time = self._rows(actions), _time(actions)
            self.version += 1
            if rows is not None:
                yield Commit(time, rows)

    def whole(self, predicate: str | None = None) -> pa.RecordBatchReader:
        """The rows of the newest version, in no order, which is the known version from then on."""
        there = DeltaTable(self._table)
        self.version = there.version()
        return pa.RecordBatchReader.from_stream(there.scan(self._columns, predicate))

    def check(self) -> None:
        """See that it is still the same table.

        Raises:
            UserError: it is gone, or another one.
        """
        try:
            same = str(DeltaTable(self._table).metadata().id) == self.table_id
        except TableNotFoundError:
            same = False
        if not same:
            raise UserError(f"The tables in {self._table.parent} were made anew meanwhile: start this again.")

    def last_append(self) -> int | None:
        """When rows were appended last, as far as the log tells; None: it does not."""
        history = DeltaTable(self._table).history()
        writes = (one for one in history if one.get("operation") in _APPENDS and MARK not in one)
        return max((int(one["timestamp"]) for one in writes), default=None)

    def _actions(self, version: int) -> list[dict[str, Any]] | None:
        log = self._table / "_delta_log"
        try:
            text = (log / f"{version:020}.json").read_text("utf-8")
        except FileNotFoundError:
            if _checkpointed(log) >= version:
                raise LostError(f"version {version} of {self._table.name}") from None
            return None
        return [json.loads(line) for line in text.splitlines() if line]

    def _rows(self, actions: list[dict[str, Any]]) -> pa.Table | None:
        """The rows that a commit appends; None: it is no append."""
        added = [action["add"] for action in actions if "add" in action]
        if any("remove" in action for action in actions) or not any(add["dataChange"] for add in added):
            return None
        if not self._columns:
            return pa.table({})
        try:
            return pa.concat_tables([self._read(unquote(add["path"])) for add in added], promote_options="default")
        except FileNotFoundError:
            raise LostError(f"a file of {self._table.name}") from None

    def _read(self, path: str) -> pa.Table:
        # As one file, not as a data set: the partition's values in its path are columns of no interest here.
        with pq.ParquetFile(self._table / path) as file:
            return file.read(self._columns)


_APPENDS = {"WRITE", "STREAMING UPDATE"}


def _time(actions: list[dict[str, Any]]) -> int:
    return max(
        (int(action["commitInfo"].get("timestamp", 0)) for action in actions if "commitInfo" in action), default=0
    )


def _checkpointed(log: Path) -> int:
    """The version that the table's last checkpoint has; -1: there is none."""
    try:
        return int(json.loads((log / "_last_checkpoint").read_text("utf-8"))["version"])
    except (FileNotFoundError, ValueError, KeyError):
        return -1
