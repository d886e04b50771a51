"""Every table and its columns. `schemas.spark` and `schemas.arrow` give them to the engines."""

import msgspec

from rebalance_model.observe.effects import TABLE_OF
from schemas.columns import Column, columns_of
from schemas.rows import AlertControl, AlertDelivery, QualityResult, RejectedRow, TelemetryRow

DERIVED: dict[str, type[msgspec.Struct]] = {table: effect for effect, table in TABLE_OF.items()}
"""The tables that the observer's effects are kept in, in the order in which a batch appends to them."""

ROWS: dict[str, type[msgspec.Struct]] = {
    **DERIVED,
    "telemetry": TelemetryRow,
    "telemetry_rejected": RejectedRow,
    "quality_results": QualityResult,
    "alert_deliveries": AlertDelivery,
    "alert_controls": AlertControl,
}
"""The row type of every table."""

TABLES: tuple[str, ...] = tuple(ROWS)

PARTITIONED_BY: dict[str, tuple[str, ...]] = {"telemetry": ("date",)}
"""Only a table that grows large is partitioned: each partition costs a file in every batch."""

_COLUMNS = {table: columns_of(row) for table, row in ROWS.items()}


def columns(table: str) -> tuple[Column, ...]:
    """The columns of a table, in order.

    Raises:
        KeyError: there is no such table.
    """
    return _COLUMNS[table]
