"""The tables of the alerts: `alert_deliveries`, written by one process, and `alert_controls`, written by any.

The position in `anomalies` is stored as a Delta transaction id of the ledger: decisions and the version on which they
are based are one commit. After a crash before it, the same decisions are made again; after a later one they are read.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, Transaction

from schemas.arrow import arrow_schema, in_epoch_ms, table_of
from schemas.rows import AlertControl, AlertDelivery
from streaming.base.errors import UserError
from streaming.base.files import FileLock, is_locked
from streaming.base.place import Place
from streaming.serve.alerting.follow import Follower
from streaming.tables.append import append
from streaming.tables.delta import delta_at

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
        transaction = CommitProperties(app_transactions=[Transaction(_application(followed), version)])
        append(self._table, _arrow(rows, DELIVERIES), transaction)


def write_control(tables: Place, control: AlertControl) -> None:
    """Write a user command for the alert process.

    Raises:
        UserError: the table does not exist, or has not the columns of this release yet; or a text is not UTF-8.
    """
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
    names: list[str] = arrow_schema(table).names
    return names


def converted(rows: pa.Table, kind: type[_Row]) -> Iterator[_Row]:
    """Convert the rows of a table to their type."""
    return (msgspec.convert(row, kind) for row in in_epoch_ms(rows).to_pylist())


def controls_of(rows: pa.Table) -> list[AlertControl]:
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


def _arrow(rows: Sequence[AlertDelivery] | Sequence[AlertControl], table: str) -> pa.Table:
    return table_of(table, [msgspec.structs.asdict(row) for row in rows])
