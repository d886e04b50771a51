"""Append rows to a Delta table from this process, without Spark."""

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from streaming.base.place import Place
from streaming.tables.delta import delta_at


def append(table: Place | DeltaTable, rows: pa.Table, commit_properties: CommitProperties | None = None) -> None:
    """Append rows in one commit.

    The table may have columns that the rows lack: a newer release has added them, and this one runs again. They are
    null in these rows.
    """
    there = table if isinstance(table, DeltaTable) else delta_at(table)
    has_more = not {field.name for field in there.schema().fields} <= set(rows.schema.names)
    write_deltalake(
        there, rows, mode="append", schema_mode="merge" if has_more else None, commit_properties=commit_properties
    )
