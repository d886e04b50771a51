"""Every table and its columns; `schemas.spark` and `schemas.arrow` convert them for the engines."""

import msgspec

from rebalance_model.observe.effects import TABLE_OF, QueueProgress
from schemas.columns import TableColumn, columns_of
from schemas.rows import (
    AlertControl,
    AlertDelivery,
    OperatorAction,
    QualityResult,
    QueueProgressRollup,
    QueueProgressRow,
    RejectedRow,
    TelemetryRow,
)

DERIVED: dict[str, type[msgspec.Struct]] = {
    table: QueueProgressRow if row is QueueProgress else row for row, table in TABLE_OF.items()
}
"""The tables of the observer's effects, in the order in which a batch appends to them."""

ROWS: dict[str, type[msgspec.Struct]] = {
    **DERIVED,
    "queue_progress_minute": QueueProgressRollup,
    "queue_progress_5min": QueueProgressRollup,
    "telemetry": TelemetryRow,
    "telemetry_rejected": RejectedRow,
    "quality_results": QualityResult,
    "alert_deliveries": AlertDelivery,
    "alert_controls": AlertControl,
    "operator_actions": OperatorAction,
}
"""The row type of every table."""

TABLES: tuple[str, ...] = tuple(ROWS)

ADDED: frozenset[str] = frozenset({"operator_actions"})
"""Tables that the tables of a former release lack: the job creates them at its next start, and until then readers take
them for empty."""

PARTITIONED_BY: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("telemetry", "queue_progress", "queue_progress_minute", "queue_progress_5min"), ("date",)
)
"""Only tables that grow large are partitioned: each partition costs a file in every batch."""

_COLUMNS = {table: columns_of(row) for table, row in ROWS.items()}


def columns(table: str) -> tuple[TableColumn, ...]:
    """Return the columns of a table, in order.

    Raises:
        KeyError: the table does not exist.
    """
    return _COLUMNS[table]
