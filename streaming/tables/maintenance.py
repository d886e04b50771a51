"""Keep the tables fast to read and limited in size, beside a job that appends to them.

The job writes a small file for every batch, in the order of time. A query is about one group, or about one moment. So
small files are merged into larger ones, each of one period and sorted by day and group, in small row groups: readers
skip most of them by their statistics. Delta's Z-order would rewrite everything each time, and compares only the first
16 bytes of a name; a table partitioned by group would cost the job one file per group in every batch.

Merging changes no row (``dataChange`` is false), and touches only files that exist when it begins, so it never
conflicts with an append. The replaced files stay on disk for a while, for readers of an older version.
"""

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.parse import unquote

import duckdb
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from rebalance_model.entities import INT64_MAX
from schemas.contract import CommitKind, Operation, tables_of
from schemas.tables import DERIVED, PARTITIONED_BY, TableColumn, columns
from streaming.base.durable import sync, sync_commits
from streaming.base.errors import UserError
from streaming.base.files import FileLock
from streaming.base.place import ObjectPlace, Place
from streaming.base.times import DAY_MS, iso, now_ms
from streaming.tables.database import connected
from streaming.tables.delta import check_writable, delta_at, folder_of, readable
from streaming.tables.files import File, files_of, literal, select
from streaming.tables.folder import folder_at
from streaming.tables.progress_rollup import SERIES
from streaming.tables.retention import ENTITIES, described, entity_rows, expired, instant, noted, refer
from streaming.tables.versions import USER_METADATA, keep_versions, named, thin_checkpoints

FILE_ROWS = 1_000_000
"""A file with this many rows is not merged: a query about a group opens each file of its period, and other engines have
nothing but a file's bounds to skip it by."""
ARCHIVE_FILE_BYTES = 32_000_000
"""A file of the archive with this many bytes is not merged either: its rows have the raw events."""
SERIES_FILE_BYTES = 6_000_000
"""A file of the series with this many bytes is not merged either: arrays of thousands of queues are sorted in memory,
where they are about 100 times as large."""
_FILE_BYTES = {**dict.fromkeys(SERIES, SERIES_FILE_BYTES), "telemetry": ARCHIVE_FILE_BYTES}
ROW_GROUP_ROWS = 8_192
"""Small, so that a query about a group reads few rows of other groups."""
MARK = "rebalance_watch.maintenance"
"""Marks the commits in the table's history: Delta calls them writes, but nothing was appended."""
_SPARKS_CHECKPOINT_INTERVAL = 10
"""The interval of a table without the property."""
_MEANWHILE = "The files of {} were rewritten by another process meanwhile: try again."

_ORDER = {
    **dict.fromkeys(DERIVED, 'epoch_ms(time) // 86_400_000, cluster, "group", time, seq'),
    **dict.fromkeys(SERIES, '"group", cluster, broker, time'),
    "telemetry": 'partition, "offset"',
    "telemetry_rejected": 'partition, "offset"',
    "quality_results": "time, batch_id",
    "alert_deliveries": "number",
    "alert_controls": "time",
    "operator_actions": "time",
}
"""The order of the rows of a file: by day and then by group, so that a reader of a day, or of a group, skips most row
groups of the few large files."""

_TEXTS_WITH_STATS = frozenset({
    "cluster", "group", "topic", "broker", "client_id", "owner", "trigger_client", "main_client_id", "cause",
    "rebalance_id", "incident_id", "parent", "control_id", "code", "type", "source_id", "kind", "expected_owner",
})  # fmt: skip
"""The columns with a name or an id. With those of numbers and times they are the ones whose bounds the Delta log has
for each file: texts for a person are long, and nobody selects by their order."""
PRUNED = tables_of(Operation.MAINTAIN_OLDER, CommitKind.DELETE)
"""The tables whose old rows are dropped on request."""


@dataclass(frozen=True)
class Limits:
    """The time for which rows and old versions are kept."""

    rows_since: int | None = None
    """Drop rows of `PRUNED` that are older (epoch milliseconds); None: drop none."""
    replaced_ms: int = DAY_MS
    """The time for which replaced files are kept: longer than any reader needs one version of a table."""
    versions_days: int | None = None
    """Days for which the log keeps former versions; None: as the table's properties say."""


@dataclass(frozen=True)
class Done:
    """The changes made to a table, or those that a dry run would make."""

    table: str
    files_before: int
    files_after: int | None
    """None: no change."""
    merged: int
    """Files that were merged into others."""
    rows_dropped: int
    removed: int
    """Files removed from disk."""
    seconds: float


def maintained(tables: Place) -> FileLock:
    """Lock the tables for maintenance until the lock is closed.

    The lock of tables in an object store is that of this machine: of two processes elsewhere, Delta refuses one commit.

    Raises:
        UserError: another process maintains them.
    """
    folder = folder_at(tables).path
    if isinstance(tables, ObjectPlace):
        folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / ".maintain.lock", f"Another `rebalance-watch maintain` works on {tables}: wait for it.")


def maintain(tables: Place, table: str, limits: Limits, *, dry_run: bool = False) -> Done:
    """Drop old rows, merge small files, shorten the log, and remove files that no reader needs any more.

    The caller holds `maintained`. A dry run changes nothing, and returns what would be done.

    Raises:
        UserError: another process rewrote the same files meanwhile, or the table has features that are not handled.
    """
    with readable(tables / table):
        return _maintain(tables, table, limits, dry_run=dry_run)


def _maintain(tables: Place, table: str, limits: Limits, *, dry_run: bool) -> Done:
    began = time.monotonic()
    delta = delta_at(tables / table)
    check_writable(delta)
    if limits.versions_days is not None and not dry_run:
        keep_versions(delta, limits.versions_days)
    before = len(files_of(table, delta))
    with _Rewriter(delta, tables, table, dry_run=dry_run) as rewriter:
        rewriter.add_statistics()
        dropped = rewriter.drop(limits.rows_since) if limits.rows_since is not None else 0
        merged = rewriter.merge()
    if not dry_run:
        if delta.version() % _checkpoint_interval(delta):
            delta.create_checkpoint()
        if (folder := folder_of(delta)) is not None:  # before the commits that it replaces are removed
            sync(*(folder / "_delta_log").glob("*checkpoint*"), folder / "_delta_log")
        delta.cleanup_metadata()
    removed = delta.vacuum(
        limits.replaced_ms // 3_600_000, dry_run=dry_run, enforce_retention_duration=False, full=True
    )
    if not dry_run:  # last, because what was opened above reads one of them
        thin_checkpoints(folder_at(tables / table))
    after = len(files_of(table, delta)) if not dry_run else None
    return Done(table, before, after, merged, dropped, len(removed), time.monotonic() - began)


class _Rewriter:
    """Replaces files of one table by others."""

    def __init__(self, delta: DeltaTable, tables: Place, table: str, *, dry_run: bool) -> None:
        self._there, self._tables, self._table, self._dry_run = delta, tables, table, dry_run
        self._folder = folder_at(tables / table)

    def __enter__(self) -> Self:
        self._spilled = TemporaryDirectory(prefix="rebalance-watch-")
        self._database = connected(folder_at(self._tables).path, spill=Path(self._spilled.name))
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
        self._spilled.cleanup()

    def add_statistics(self) -> None:
        """Add the statistics of files that have none in the log, which another writer may leave out or lose.

        Without them a file's number of rows is unknown, and no reader skips it. The file itself is not changed.
        """
        bare = [file for file in files_of(self._table, self._there) if not file.rows]
        if self._dry_run or not bare:
            return
        self._folder.fetch(bare)
        statistics = [stats_of(self._database, self._table, self._folder.path / unquote(file.path)) for file in bare]
        # A file that has no rows is not added in every round.
        added = [self._add(file, stats) for file, stats in zip(bare, statistics, strict=True) if stats["numRecords"]]
        if added:
            self._commit(bare, added, f"added the statistics of {_files(added)}; no row changed")

    def drop(self, since: int) -> int:
        """Drop the rows before an instant that no current state depends on; return how many."""
        if self._table not in PRUNED:
            return 0
        files = files_of(self._table, self._there)
        if self._table in PARTITIONED_BY:  # by day: whole partitions are removed, and no file is read
            first = str(datetime.fromtimestamp(since / 1000, UTC).date())
            old = [file for file in files if file.partition < (first,)]
            dropped = sum(file.rows for file in old)
            what = f"dropped {dropped:,} rows of days before {first}: {_files(old)}"
            self._remove(old, what, since)
            return dropped
        old = [file for file in files if file.begins < since]
        if not old:
            return 0
        self._folder.fetch(old)
        if self._table in ENTITIES:
            refer(self._database, entity_rows(self._tables), since)
        rows = select(self._table, self._folder.path, old)
        old_rows = expired(self._table, rows, since)
        left = f"""
            SELECT * FROM ({rows}) WHERE time >= {instant(since)}
            UNION ALL
            SELECT * EXCLUDE (outlives) FROM ({old_rows}) WHERE outlives
        """  # noqa: S608  files and conditions of ours
        gone = f"SELECT * EXCLUDE (outlives) FROM ({old_rows}) WHERE NOT outlives"  # noqa: S608  the same
        [(dropped,)] = self._database.execute(f"SELECT count(*) FROM ({gone})").fetchall()  # noqa: S608  the same
        if dropped:
            self._drop(old, left, gone, int(dropped), since)
        return int(dropped)

    def _drop(self, files: Sequence[File], left: str, gone: str, dropped: int, since: int) -> None:
        """Move the rows that go into a file of their own, which changes no row, and then remove that file.

        So the commit that drops rows adds none: a stream of the table that ignores deletes continues, and the change
        data feed has these rows only.
        """
        if kept := sum(file.rows for file in files) - dropped:
            if self._dry_run:
                return
            parts = [self._write(files, left, kept), self._write(files, gone, dropped)]
            added = [self._add(file, stats) for file, stats in parts]
            self._replace(files, added, f"split {_files(files)} before rows are dropped; no row changed")
            files = [parts[1][0]]
        self._remove(files, described(dropped, since), since)

    def _remove(self, files: Sequence[File], what: str, since: int) -> None:
        """Remove files with all their rows, and note the limit."""
        if self._dry_run or not files:
            return
        by_itself = self._table in tables_of(Operation.MAINTAIN, CommitKind.DELETE)
        operation = Operation.MAINTAIN if by_itself else Operation.MAINTAIN_OLDER
        notes = [noted(self._there, self._table, since)]
        self._commit(files, self._removed(files, data_change=True), what, notes, operation)

    def merge(self) -> int:
        """Merge small files that follow each other in time; return how many were merged."""
        merged = 0
        bytes_max = _FILE_BYTES.get(self._table, INT64_MAX)
        for files in _bins(files_of(self._table, self._there), bytes_max):
            rows = select(self._table, self._folder.path, files)
            self._rewrite(files, rows, sum(file.rows for file in files))
            merged += len(files)
        return merged

    def _rewrite(self, files: Sequence[File], rows: str, count: int) -> None:
        if self._dry_run:
            return
        self._folder.fetch(files)
        made, stats = self._write(files, rows, count)
        what = f"merged {_files(files)} into 1 with {count:,} rows; no row changed"
        self._replace(files, [self._add(made, stats)], what)

    def _write(self, files: Sequence[File], rows: str, count: int) -> tuple[File, dict[str, Any]]:
        """Write a file with rows of files of one partition; return it with its statistics. No commit adds it yet."""
        partition = files[0].partition
        names = PARTITIONED_BY.get(self._table, ())
        relative = Path(*map("{}={}".format, names, partition), f"part-{uuid.uuid4()}.zstd.parquet")
        path = self._folder.path / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        stored = ", ".join(f'"{column.name}"' for column in columns(self._table) if column.name not in names)
        wanted = f"SELECT {stored} FROM ({rows}) ORDER BY {_ORDER[self._table]}"  # noqa: S608  files and names of ours
        self._database.execute(
            f"COPY ({wanted}) TO {literal(str(path))}"
            f" (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP_ROWS})"
        )
        stats = stats_of(self._database, self._table, path)
        if stats["numRecords"] != count:
            raise UserError(
                f"The files of {self._table} have {stats['numRecords']} rows, but their log has {count}: nothing was "
                "replaced; restore the table from a backup, or rebuild it from the archive."
            )
        self._folder.publish(relative)
        sync(path, path.parent, path.parent.parent)
        return File(relative.as_posix(), path.stat().st_size, count, 0, 0, partition, now_ms()), stats

    def _add(self, file: File, stats: dict[str, Any]) -> AddAction:
        """Return what adds a file whose rows are not new."""
        return AddAction(file.path, file.size, self._values(file), file.written, False, json.dumps(stats))  # noqa: FBT003  delta-rs's order

    def _values(self, file: File) -> dict[str, str | None]:
        return dict(zip(PARTITIONED_BY.get(self._table, ()), file.partition, strict=True))

    def _replace(self, files: Sequence[File], added: Sequence[AddAction], what: str) -> None:
        """Commit the removal of files and the addition of others with the same rows."""
        if not self._dry_run and files:
            self._commit(files, [*added, *self._removed(files, data_change=False)], what)

    def _removed(self, files: Sequence[File], *, data_change: bool) -> list[RemoveAction]:
        return [RemoveAction(file.path, data_change, now_ms(), file.size, self._values(file)) for file in files]

    def _commit(
        self,
        files: Sequence[File],
        actions: Sequence[AddAction | RemoveAction],
        what: str,
        notes: Sequence[Transaction] = (),
        operation: Operation = Operation.MAINTAIN,
    ) -> None:
        """Commit what is about these files, if the table still has all of them; ``what`` says it in the history."""
        self._there.update_incremental()
        if not {file.path for file in files} <= {file.path for file in files_of(self._table, self._there)}:
            raise UserError(_MEANWHILE.format(self._table))
        application = f"maintain/{self._table}"
        turn = Transaction(application, (self._there.transaction_version(application) or 0) + 1)
        before = self._there.version()
        try:
            self._there.create_write_transaction(
                list(actions),
                mode="append",
                schema=self._there.schema(),
                partition_by=list(PARTITIONED_BY.get(self._table, ())),
                commit_properties=CommitProperties(
                    custom_metadata={MARK: "true", USER_METADATA: named(operation, what)},
                    app_transactions=[turn, *notes],
                ),
            )
        except CommitFailedError:
            raise UserError(_MEANWHILE.format(self._table)) from None
        if (folder := folder_of(self._there)) is not None:
            sync_commits(folder, before)
        self._there.update_incremental()


def _checkpoint_interval(delta: DeltaTable) -> int:
    """Return every how many commits the one that commits also writes a checkpoint of the log, by the table's property.

    Nobody else may write that checkpoint. Spark does it some seconds after its commit. If it finds one of delta-rs
    there, it leaves the file, whose columns are others, and describes its own in ``_last_checkpoint``: delta-rs then
    finds no statistics in it.
    """
    return int(delta.metadata().configuration.get("delta.checkpointInterval") or _SPARKS_CHECKPOINT_INTERVAL)


def stats_of(database: duckdb.DuckDBPyConnection, table: str, path: Path) -> dict[str, Any]:
    """Return the statistics of a Parquet file for Delta's log, by which readers skip it."""
    names = [column.name for column in columns(table) if _has_stats(column)]
    bounds = ", ".join(f'min("{name}"), max("{name}"), count("{name}")' for name in names)
    query = f"SELECT count(*), {bounds} FROM read_parquet(?)"  # noqa: S608  the contract's names
    [(count, *found)] = database.execute(query, [str(path)]).fetchall()
    found = [iso(value.astimezone(UTC)) if isinstance(value, datetime) else value for value in found]
    bounds_of = {name: found[n * 3 : n * 3 + 3] for n, name in enumerate(names)}
    return {
        "numRecords": count,
        "minValues": {name: low for name, (low, _, there) in bounds_of.items() if there},
        "maxValues": {name: high for name, (_, high, there) in bounds_of.items() if there},
        "nullCount": {name: count - there for name, (_, _, there) in bounds_of.items()},
    }


def _has_stats(column: TableColumn) -> bool:
    """Return whether the Delta log has the bounds of a column; those of a partition are in the file's path."""
    return column.type in {"long", "timestamp"} or column.name in _TEXTS_WITH_STATS


def _files(these: Sequence[object]) -> str:
    return f"{len(these):,} file" + ("s" if len(these) != 1 else "")


def _bins(files: Sequence[File], bytes_max: int) -> Iterator[list[File]]:
    """Yield groups of at least two small files of a partition, adjacent in time, each about one large file.

    In the newest partition, which grows, only as many of the newest files are merged as pay: see `_worth_merging`.
    """
    small = sorted(
        (file for file in files if file.rows < FILE_ROWS and file.size < bytes_max),
        key=lambda f: (f.partition, f.begins, f.path),
    )
    newest = max((file.partition for file in files), default=())
    for partition, of_partition in groupby(small, key=lambda file: file.partition):
        candidates = list(of_partition)
        together: list[File] = []
        rows = size = 0
        for file in _worth_merging(candidates) if partition == newest else candidates:
            together.append(file)
            rows, size = rows + file.rows, size + file.size
            if rows >= FILE_ROWS or size >= bytes_max:
                yield together
                together, rows, size = [], 0, 0
        if len(together) > 1:
            yield together


def _worth_merging(small: Sequence[File]) -> Sequence[File]:
    """Return the newest files, from the first that has at most as many rows as all newer ones together.

    So a row is rewritten only when its file at least doubles, and a round every minute costs little: at most
    ``log2(FILE_ROWS)`` times, instead of once in every round until the file is large.
    """
    newer = sum(file.rows for file in small)
    for n, file in enumerate(small):
        newer -= file.rows
        if file.rows <= newer:
            return small[n:]
    return ()
