"""The tables of the alerts: `alert_deliveries`, which one process writes, and `alert_controls`, which anybody may.

The position in `anomalies` is Delta's own transaction id of the ledger: decisions and the version that they came from
are one commit. A crash before it has decided nothing, and the same decisions are made again; a crash after it finds
them.
"""

import fcntl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from schemas.arrow import arrow_schema
from schemas.rows import AlertControl, AlertDelivery
from streaming.alerting.follow import Follower
from streaming.errors import UserError

DELIVERIES, CONTROLS = "alert_deliveries", "alert_controls"
_LOCK_SECONDS = 2
_Row = TypeVar("_Row", bound=msgspec.Struct)


class Ledger:
    """What was decided and sent."""

    def __init__(self, tables: Path) -> None:
        """Open it.

        Raises:
            UserError: it is not there.
        """
        self._follower = Follower(tables / DELIVERIES, columns_of(DELIVERIES))
        self._table = DeltaTable(tables / DELIVERIES)

    def rows(self) -> list[AlertDelivery]:
        """All of it, in order."""
        return sorted(converted(self._follower.whole().read_all(), AlertDelivery), key=lambda row: row.number)

    def position(self, followed: str) -> int | None:
        """The last version of a table (by its id) that was decided on; None: nothing was."""
        self._table.update_incremental()
        return self._table.transaction_version(_application(followed))

    def append(self, rows: Sequence[AlertDelivery], followed: str, version: int) -> None:
        """Keep decisions together with how far in the table they reach."""
        transaction = CommitProperties(app_transactions=[Transaction(_application(followed), version)])
        write_deltalake(self._table, _arrow(rows, DELIVERIES), mode="append", commit_properties=transaction)


def tell(tables: Path, control: AlertControl) -> None:
    """Keep what a person says, for the alert process to find."""
    Follower(tables / CONTROLS)  # or a sentence
    write_deltalake(tables / CONTROLS, _arrow([control], CONTROLS), mode="append")


def columns_of(table: str) -> list[str]:
    """The names of a table's columns."""
    names: list[str] = arrow_schema(table).names
    return names


def converted(rows: pa.Table, kind: type[_Row]) -> Iterator[_Row]:
    """A table's rows as what they are."""
    return (msgspec.convert(row, kind) for row in rows.to_pylist())


def controls_of(rows: pa.Table) -> list[AlertControl]:
    """What people told the alerts, oldest first."""
    return sorted(converted(rows, AlertControl), key=lambda row: row.time)


@contextmanager
def claimed(root: Path) -> Iterator[None]:
    """Be the only alert process of a root.

    Raises:
        UserError: there is another.
    """
    with (root / ".alert.lock").open("w") as lock:
        deadline = time.monotonic() + _LOCK_SECONDS  # `alert status` may hold it for a moment
        while not _lock(lock.fileno()):
            if time.monotonic() > deadline:
                raise UserError(f"Another `rebalance-watch alert` works on {root}: stop it, or name another --root.")
            time.sleep(0.05)
        yield  # closing the file frees the lock, and so does the death of the process


def is_claimed(root: Path) -> bool:
    """Whether an alert process runs on a root."""
    try:
        with (root / ".alert.lock").open("r") as lock:
            return not _lock(lock.fileno())
    except FileNotFoundError:
        return False


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _application(followed: str) -> str:
    return f"alert/{followed}"


def _arrow(rows: Sequence[AlertDelivery] | Sequence[AlertControl], table: str) -> pa.Table:
    return pa.Table.from_pylist([msgspec.structs.asdict(row) for row in rows], arrow_schema(table))
