"""The rows of a rebuild, as Parquet files beside the tables until the swap."""

import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rebalance_model.observe.effects import TABLE_OF, AnyRow, QueueProgress
from schemas.arrow import arrow_schema, in_epoch_ms, table_of
from schemas.contract import CommitKind, Operation, tables_of
from schemas.tables import PARTITIONED_BY
from streaming.base.place import Place
from streaming.tables import ReadModel
from streaming.tables.database import connected
from streaming.tables.delta import delta_at
from streaming.tables.files import File, select
from streaming.tables.retention import ENTITIES, dropped_before, expired, instant, refer

REBUILT = tables_of(Operation.REBUILD, CommitKind.REPLACE)
"""The tables that a rebuild replaces, evidence first."""
assert not set(REBUILT) & PARTITIONED_BY.keys()

_FILE_ROWS = 100_000
_ROW_GROUP_ROWS = 8_192
_ORDER = [(name, "ascending") for name in ("cluster", "group", "time", "seq")]

GroupKey = tuple[str, str]


class RowFiles:
    """Writes rows into files, table by table; one file covers one period, sorted by group."""

    def __init__(self, folder: Path, name: str, last_seq: Mapping[GroupKey, int]) -> None:
        """Write a folder for each table; ``name`` begins the names of its files.

        ``last_seq`` is the highest ``seq`` of each group in the tables that are replaced: new rows continue from there,
        so that a reader that follows a group recognises new rows.
        """
        self._folder, self._name, self._last_seq = folder, name, last_seq
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._files = 0
        self.written = 0

    def add(self, effects: Iterable[AnyRow]) -> None:
        """Add rows; those of `queue_progress` are omitted."""
        for effect in effects:
            if isinstance(effect, QueueProgress):
                continue
            table = TABLE_OF[type(effect)]
            row = msgspec.to_builtins(effect)
            row["seq"] += self._last_seq.get((effect.cluster, effect.group), 0)
            self._rows[table].append(row)
            if len(self._rows[table]) >= _FILE_ROWS:
                self._write(table)

    def close(self) -> None:
        """Write the remaining rows."""
        for table in list(self._rows):
            self._write(table)

    def _write(self, table: str) -> None:
        rows = self._rows.pop(table)
        write_rows(
            self._folder / table / f"{self._name}-{self._files:05d}.parquet",
            table,
            table_of(table, rows),
        )
        self._files += 1
        self.written += len(rows)


def write_rows(file: Path, table: str, rows: pa.Table) -> None:
    """Write rows of a table into one file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    content = rows.cast(arrow_schema(table)).sort_by(_ORDER)
    pq.write_table(content, file, compression="zstd", row_group_size=_ROW_GROUP_ROWS)


def last_seq_of(model: ReadModel) -> dict[GroupKey, int]:
    """Return the highest ``seq`` of each group over all tables that are replaced."""
    each = " UNION ALL ".join(f'SELECT cluster, "group", seq FROM {table}' for table in REBUILT)  # noqa: S608  ours
    rows = model.rows(f'SELECT cluster, "group", max(seq) AS seq FROM ({each}) GROUP BY ALL')  # noqa: S608  ours
    return {(row["cluster"], row["group"]): row["seq"] for row in rows}


def keep_older(model: ReadModel, folder: Path) -> int:
    """Keep the rows from before the archive begins, which can't be rebuilt; return how many.

    Incidents that were open then are resolved at the archive's beginning; those whose condition still holds open again.
    """
    begins = model.rows("SELECT min(time) AS time FROM telemetry")[0]["time"]
    kept = 0
    for table in REBUILT:
        rows = model.sql(f"SELECT * FROM {table} WHERE time < from_ms(?)", [begins])  # noqa: S608  ours
        if table == "anomalies":
            ends = [row | {"transition": "RESOLVED", "time": begins, "cause": ""} for row in _open(in_epoch_ms(rows))]
            rows = pa.concat_tables([rows.cast(arrow_schema(table)), table_of(table, ends)])
        if rows.num_rows:
            write_rows(folder / table / "older.parquet", table, rows)
            kept += rows.num_rows
    return kept


def without_dropped(before: Path, tables: Place) -> Path:
    """Return a folder with the rows from before a rebuild, without those that `maintain` has dropped by age since."""
    limits = {table: dropped_before(delta_at(tables / table), table) for table in REBUILT}
    if not any(limits.values()):
        return before
    left = before.with_name("not-dropped")
    shutil.rmtree(left, ignore_errors=True)
    rows = {table: select(table, before.resolve() / table, _files(before / table)) for table in ENTITIES}
    with connected(before.resolve()) as database:
        for table, limit in limits.items():
            kept = rows[table]
            if limit is not None:
                refer(database, rows, limit)
                old = f"SELECT * EXCLUDE (outlives) FROM ({expired(table, kept, limit)}) WHERE outlives"  # noqa: S608  ours
                kept = f"SELECT * FROM ({kept}) WHERE time >= {instant(limit)} UNION ALL {old}"  # noqa: S608  the same
            found = database.sql(kept).to_arrow_table()
            if found.num_rows:
                write_rows(left / table / "rows.parquet", table, found)
    return left


def _files(folder: Path) -> list[File]:
    return [File(quote(path.name), path.stat().st_size) for path in sorted(folder.glob("*.parquet"))]


def _open(rows: pa.Table) -> list[dict[str, Any]]:
    last: dict[str, dict[str, Any]] = {}
    for row in sorted(rows.to_pylist(), key=lambda row: (row["time"], row["seq"])):
        last[row["incident_id"]] = row
    return [row for row in last.values() if row["transition"] != "RESOLVED"]
