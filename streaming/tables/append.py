"""Append rows to a Delta table from this process, without Spark."""

from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake


def append(table: Path | DeltaTable, rows: pa.Table, commit_properties: CommitProperties | None = None) -> None:
    """Append rows in one commit.

    The table may have columns that the rows lack: a newer release has added them, and this one runs again. They are
    null in these rows.
    """
    write_deltalake(table, rows, mode="append", schema_mode="merge", commit_properties=commit_properties)
