"""The archive query: keep every row of the log, in `telemetry` if it is an event, else in `telemetry_rejected`.

It uses the operator's own decoder, so both always agree on what an event is. For each batch it checks that accepted +
rejected = read before anything is written; a batch that fails the check ends the job, and the next start repeats it.

`checkpoints.quality` checks each batch. A failed check delays nothing (the log may have deleted the rows by tomorrow):
the result is kept in `quality_results` and logged as a warning.
"""

from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  pyspark's own convention
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from checkpoints import quality
from checkpoints.lease import Lease
from checkpoints.manifest import ARCHIVE
from schemas.arrow import in_epoch_ms, table_of
from schemas.rows import QualityResult
from streaming.base.place import tables_of
from streaming.base.settings import Settings
from streaming.pipeline.archive_rows import ACCEPTED, REJECTED, Transport, archived
from streaming.pipeline.batches import BatchTimes
from streaming.pipeline.session import ARCHIVE_POOL, in_pool
from streaming.pipeline.sinks import TableSink, persisted, started
from streaming.pipeline.sources import read_log

_LOG = structlog.get_logger(__name__)

_ARCHIVED = from_arrow_schema(pa.schema([("accepted", ACCEPTED), ("rejected", REJECTED)]))
"""The schema of a row of the log: one of the two parts is set and the other is null."""
_SIDES = ("accepted", "rejected")
_CHECKED = (
    "accepted IS NOT NULL AS accepted",
    "rejected IS NOT NULL AS rejected",
    "coalesce(accepted.ingest_time, rejected.ingest_time) AS ingest_time",
    "coalesce(octet_length(accepted.value), octet_length(rejected.value), 0) AS size",
    *(f"accepted.{name}" for name in quality.COLUMNS if name != "ingest_time"),
)
"""The columns that are needed to count a batch's rows and to check them."""


class ArchiveError(RuntimeError):
    """Rows were lost or duplicated between the log and the tables."""


def start_archive(
    spark: SparkSession,
    settings: Settings,
    generation: str,
    lease: Lease | None = None,
    *,
    available_now: bool,
    times: BatchTimes | None = None,
    after: BatchTimes | None = None,
) -> StreamingQuery:
    """Start the archive query over existing tables (`checkpoints.generation.claimed`); see `start_operator`.

    ``after`` are the batches of the operator: those of the archive wait for their ends, see `started`.
    """
    transport = Transport(settings.source.topic if settings.source.kind == "kafka" else None)
    sink = TableSink(tables_of(settings), ARCHIVE, generation, times=times or BatchTimes())

    write = partial(archive_batch, transport=transport, sink=sink)
    in_pool(spark, ARCHIVE_POOL)
    seconds = None if available_now else settings.job.archive_trigger_seconds
    return started(read_log(spark, settings), sink, write, settings, lease, seconds=seconds, after=after)


def archive_batch(batch: DataFrame, batch_id: int, transport: Transport, sink: TableSink) -> None:
    """Store one batch of the log, and the results of the quality gate.

    Raises:
        ArchiveError: accepted and rejected rows do not add up to the rows of the log; nothing was written.
    """
    read = Observation()
    rows = batch.observe(read, F.count(F.lit(1)).alias("rows"))
    with persisted(rows.mapInArrow(partial(archived, transport=transport), _ARCHIVED)) as both:
        # One job computes the batch and fetches the rows for the gate: each job costs 0.5 s on a busy machine.
        with sink.times.part(batch_id, "read and decode"):
            looked_at = in_epoch_ms(both.selectExpr(*_CHECKED).toArrow())
        counts = {side: pc.sum(looked_at[side]).as_py() or 0 for side in _SIDES}
        sizes = {side: pc.sum(looked_at.filter(looked_at[side])["size"]).as_py() or 0 for side in _SIDES}
        if sum(counts.values()) != read.get["rows"]:
            text = f"batch {batch_id}: {counts['accepted']} accepted + {counts['rejected']} rejected are not"
            raise ArchiveError(f"{text} {read.get['rows']} read")
        for table, side in (("telemetry", "accepted"), ("telemetry_rejected", "rejected")):
            if counts[side]:
                kept = both.where(F.col(side).isNotNull()).select(f"{side}.*")
                with sink.times.part(batch_id, f"append to {table}", rows=counts[side]):
                    sink.append(kept, table, batch_id=batch_id, count=counts[side], size=sizes[side])
    if looked_at:
        with sink.times.part(batch_id, "check the batch"):
            accepted = looked_at.filter(looked_at["accepted"]).select(quality.COLUMNS).to_pandas()
            latest = pc.max(looked_at["ingest_time"]).as_py()
            verdicts = quality.judge(accepted, batch_id=batch_id, rejected=counts["rejected"], time=latest)
        with sink.times.part(batch_id, "append to quality_results", rows=len(verdicts)):
            _record(sink, batch_id, verdicts)


def _record(sink: TableSink, batch_id: int, verdicts: list[QualityResult]) -> None:
    for verdict in verdicts:
        if not verdict.success:
            _LOG.warning(
                verdict.why, batch=batch_id, check=verdict.expectation, column=verdict.column,
                unexpected=verdict.unexpected_count, of=verdict.row_count,
            )  # fmt: skip
    table = table_of("quality_results", [msgspec.structs.asdict(one) for one in verdicts])
    sink.append_arrow(table, "quality_results", batch_id=batch_id)
