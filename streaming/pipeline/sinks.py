"""Append micro-batches to Delta tables, each row once.

Spark runs `foreachBatch` again for a batch that did not finish. So each append carries Delta's ``txnAppId`` (query,
table and checkpoint generation) and ``txnVersion`` (the batch), and one that the table has is skipped.

There are two ways to append. Few rows are fetched by the driver once, as Arrow, and appended by delta-rs in 0.02 s per
table. Many rows, as the archive has after an outage, stay in Spark, which writes them in its tasks; this takes 0.6 s
per table, however few they are, and several times that on a busy machine. Both write the same protocol, and each knows
the other's appends by the batch. The operator's effects, in six tables, and the archive's quality results are always
few; `telemetry_rejected` also gets what the operator could not use, by appends that conflict with none. In an object
store it is always delta-rs (`streaming.tables.delta`).

A table that was appended to stays open for a few more appends: to open it takes as long as to append to it. With each
commit an open one costs more: after 300, an append took 0.18 s of processor time instead of 0.035 s (delta-rs 1.6.6).
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import structlog
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from checkpoints.lease import Lease
from checkpoints.manifest import app_id
from checkpoints.spark_files import checksum_of, note_last_commits
from rebalance_model.observe.effects import TABLE_OF
from schemas.arrow import arrow_schema, table_of, table_of_json
from schemas.rows import RejectedRow
from schemas.tables import PARTITIONED_BY
from streaming.base.durable import last_commit, sync, sync_commits
from streaming.base.errors import UserError
from streaming.base.place import ObjectPlace, Place
from streaming.base.settings import Settings
from streaming.pipeline.batches import BatchTimes
from streaming.pipeline.effects import QUARANTINE
from streaming.pipeline.hadoop import checkpoint_url
from streaming.tables.append import append
from streaming.tables.delta import answered, delta_at

_LOG = structlog.get_logger(__name__)
*_EVIDENCE, _ANOMALIES = TABLE_OF.values()
_REJECTED = msgspec.json.Decoder(RejectedRow)
ANSWER_KEY = ("cluster", "group", "broker", "client_id", "source", "kind", "time")
"""The columns that identify a row of `queue_progress`: the same event, read again, has the same."""
ROWS_PER_FILE = 250_000
"""Up to this number, a batch's rows of one table go into one file, because small files slow the readers."""
APPENDS_MAX, OPEN_SECONDS_MAX = 10, 30.0
"""The most appends to a table that stays open, and how long it may: meanwhile `maintain` commits to it, too."""
FETCHED_BYTES_MAX = 32_000_000
"""The driver fetches rows with so many bytes: those of half a minute at 1,000 events a second."""
AFTER_SECONDS_MAX = 2.0
"""The longest time that a batch waits for the end of another query's. Spark starts the batches of all queries at
multiples of their intervals: each of the archive shared the cores with one of the operator, which took twice as long.
"""


class _OpenTable(NamedTuple):
    """A table that stays open."""

    delta: DeltaTable
    since: float
    """When it was opened, by `time.monotonic`."""
    appends: int = 0


@dataclass(frozen=True)
class TableSink:
    """Appends one query's batches to its tables."""

    tables: Place
    query: str
    generation: str
    swapped: Mapping[str, str] = field(default_factory=dict)
    """The last swap of each table, by the table's name; see `app_id`."""
    repeated_until: Mapping[str, int] = field(default_factory=dict)
    """By table the time up to which rows may be there already, epoch milliseconds; see `Manifest.repeated_until`."""
    commits: dict[str, int] = field(default_factory=dict)
    """The last commit to each table that was appended to since `note_commits`; none in an object store."""
    times: BatchTimes = field(default_factory=BatchTimes)
    _open: dict[str, _OpenTable] = field(default_factory=dict)
    """By its name each table that was appended to of late."""

    def append(self, rows: DataFrame, table: str, *, batch_id: int, count: int, size: int) -> None:
        """Append a batch's rows of one table, unless the table has them; by Spark if the driver can't take so many.

        The rows are from a batch that is `persisted` and counted: otherwise fewer partitions would run its computation
        in fewer tasks. ``size`` is that of their values, bytes.
        """
        if isinstance(self.tables, ObjectPlace) or size <= FETCHED_BYTES_MAX:
            self.append_arrow(rows.toArrow().cast(arrow_schema(table)), table, batch_id=batch_id)
            return
        self._open.pop(table, None)
        folder = self.tables / table
        before = last_commit(folder)
        (
            rows.coalesce(max(1, -(-count // ROWS_PER_FILE)))
            .write.format("delta")
            .mode("append")
            .partitionBy(*PARTITIONED_BY.get(table, ()))
            .option("txnAppId", self._application(table))
            .option("txnVersion", batch_id)
            .save(str(folder))
        )
        self.commits[table] = sync_commits(folder, before)

    def append_arrow(self, rows: pa.Table, table: str, *, batch_id: int) -> None:
        """Append a batch's rows of one table from this process, unless the table has them."""
        kept = self._open.pop(table, None)
        if kept is not None and kept.appends < APPENDS_MAX and time.monotonic() < kept.since + OPEN_SECONDS_MAX:
            try:
                self._append_to(kept, rows, table, batch_id)
            except (DeltaError, UserError) as error:
                # Of what others did to it meanwhile, which shows when it is opened again.
                _LOG.info("the table is opened again", table=table, error=str(error))
            else:
                return
        self._append_to(_OpenTable(delta_at(self.tables / table), time.monotonic()), rows, table, batch_id)

    def _append_to(self, opened: _OpenTable, rows: pa.Table, table: str, batch_id: int) -> None:
        application = self._application(table)
        written = opened.delta.transaction_version(application)
        if written is None or written < batch_id:
            rows = self._without_repeated(rows, table, opened.delta)
            transaction = CommitProperties(app_transactions=[Transaction(application, batch_id)])
            with answered(self.tables):
                committed = append(opened.delta, rows, transaction)
            if committed is not None:
                self.commits[table] = committed
        if table not in self.repeated_until:  # whose rows are read, too
            self._open[table] = opened._replace(appends=opened.appends + 1)

    def _without_repeated(self, rows: pa.Table, table: str, target: DeltaTable) -> pa.Table:
        """Return the rows that the table lacks, if the log is read again and its rows have stayed: after an undo."""
        until = self.repeated_until.get(table)
        if until is None or not len(rows):
            return rows
        times = pc.min_max(rows["time"])
        first, last = times["min"].as_py(), times["max"].as_py()
        if first.timestamp() * 1000 > until:
            return rows
        period = [("date", ">=", first.date()), ("date", "<=", last.date())]
        with answered(self.tables):
            there = target.to_pyarrow_table(columns=list(ANSWER_KEY), filters=period)
        known = set(zip(*(there[name].to_pylist() for name in ANSWER_KEY), strict=True))
        keys = zip(*(rows[name].to_pylist() for name in ANSWER_KEY), strict=True)
        return rows.filter(pa.array([key not in known for key in keys]))

    def note_commits(self, checkpoint: Path) -> None:
        """Note the commits of a batch in the query's checkpoint, before Spark records the batch."""
        note_last_commits(checkpoint, self.commits)
        self.commits.clear()

    def _application(self, table: str) -> str:
        return app_id(self.query, table, self.generation, self.swapped.get(table, ""))


def started(
    rows: DataFrame,
    sink: TableSink,
    write: Callable[[DataFrame, int], None],
    settings: Settings,
    lease: Lease | None,
    *,
    seconds: float | None,
    after: BatchTimes | None = None,
) -> StreamingQuery:
    """Start the query of a sink, which writes nothing after the lease is lost.

    Args:
        rows: what is to be written.
        sink: the query, and its tables.
        write: writes a batch.
        settings: with the checkpoints.
        lease: that of this run.
        seconds: those between two batches; None: end when all rows that are in the log now have been processed.
        after: the batches of another query: one of this begins at the end of one of those, `AFTER_SECONDS_MAX` later at
            most.
    """
    checkpoint = None if settings.storage.checkpoints else settings.runtime.checkpoints / sink.query

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        sink.times.begin(batch_id)
        if after is not None and seconds is not None:
            with sink.times.part(batch_id, "wait for the other query"):
                after.wait_for_end(AFTER_SECONDS_MAX)
        if lease is not None:
            lease.check()
        if checkpoint is not None:
            sync_plan(checkpoint, batch_id)
        write(batch, batch_id)
        if checkpoint is not None:
            sink.note_commits(checkpoint)
        sink.times.end()

    writer = rows.writeStream.queryName(sink.query).foreachBatch(write_batch)
    writer = writer.option("checkpointLocation", checkpoint_url(settings, sink.query))
    every = {"availableNow": True} if seconds is None else {"processingTime": f"{seconds} seconds"}
    return writer.trigger(**every).start()


@contextmanager
def persisted(batch: DataFrame) -> Iterator[DataFrame]:
    """Cache a batch that is used twice; what does not fit in memory is on disk, so that nothing is computed again."""
    batch.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield batch
    finally:
        batch.unpersist()


def sync_plan(checkpoint: Path, batch_id: int) -> None:
    """Write the plan of a batch to the disk: repeated after a power cut, it must be the same batch."""
    sources = checkpoint / "sources" / "0"  # of a log of files: which files a batch has
    files = sorted(sources.glob("[0-9]*"), key=lambda file: file.stat().st_mtime_ns)[-1:]
    files.append(checkpoint / "offsets" / str(batch_id))
    sync(*files, *map(checksum_of, files), sources, checkpoint / "offsets")
    if batch_id == 0:
        sync(sources.parent, checkpoint / "metadata", checkpoint, checkpoint.parent)


def sync_state(checkpoint: Path, batch_id: int) -> None:
    """Write the operator's state after a batch to the disk, before Spark records the batch.

    The snapshots that Spark makes of it from time to time are not synced: without one, Spark reads the one before it
    and the changes since, which it keeps as long as the last batches.
    """
    state = checkpoint / "state" / "0"
    if (state / "_metadata" / "v2" / str(batch_id)).exists():  # by the first batch of each run
        sync(*state.glob("_*/**/*"), *state.glob("_*"), state, state.parent, checkpoint)
    for store in state.glob("[0-9]*"):
        sync(store / f"{batch_id + 1}.changelog", store)


def write_effects(batch: DataFrame, sink: TableSink, batch_id: int) -> None:
    """Append a batch of `Effects`, evidence before the incidents that need it: one that is visible has its evidence.

    The tables of evidence are appended to at the same time, because an append mostly waits for the disk or the store.
    """
    lines, rows = defaultdict[str, bytearray](bytearray), Counter[str]()
    with sink.times.part(batch_id, "read and fold"):
        folded = batch.toArrow().to_pylist()
    for effects in folded:
        lines[effects["table"]] += effects["lines"]
        rows[effects["table"]] += effects["rows"]

    def write(table: str) -> None:
        with sink.times.part(batch_id, f"append to {table}", rows=rows[table]):
            sink.append_arrow(_arrow_of(table, lines[table]), table, batch_id=batch_id)

    with ThreadPoolExecutor(len(_EVIDENCE)) as pool:
        list(pool.map(write, [table for table in (QUARANTINE, *_EVIDENCE) if table in lines]))
    if _ANOMALIES in lines:
        write(_ANOMALIES)


def _arrow_of(table: str, lines: bytearray) -> pa.Table:
    """Return rows of a table; those of the quarantine have bytes, which JSON has as base64."""
    if table != QUARANTINE:
        return table_of_json(table, lines)
    return table_of(table, map(msgspec.structs.asdict, _REJECTED.decode_lines(lines)))
