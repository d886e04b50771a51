"""The job: two queries over one log, the stateful operator and the archive, until they end or are asked to stop.

What the operator concludes and what the archive keeps are independent: each has its checkpoint, its trigger and its
share of the cores (a pool of the fair scheduler), so a slow archive delays no anomaly.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  pyspark's own convention
from pyspark.sql.streaming.query import StreamingQuery

from checkpoints.generation import OPERATOR, Basis, claimed
from rebalance_model.observe.policy import Policy
from streaming.archive import start_archive
from streaming.errors import UserError
from streaming.operator import effects_of
from streaming.session import OPERATOR_POOL, in_pool, spark_session
from streaming.settings import Settings
from streaming.sinks import TableSink, write_effects
from streaming.sources import check_source, read_log, source_identity

_LOOK_SECONDS = 0.1
_STOP_SECONDS_MAX = 60
"""How long a batch may take to its end once the job is to stop; then it is cut off, and done again at the next start."""


@dataclass(frozen=True)
class Batch:
    """What one micro-batch did."""

    query: str
    number: int
    rows_in: int
    rows_out: int
    milliseconds: int


def run(
    settings: Settings,
    policy: Policy,
    *,
    available_now: bool = False,
    report: Callable[[Batch], None] = lambda batch: None,
    stopping: threading.Event | None = None,
) -> None:
    """Run both queries until they end (`available_now`), one fails, or ``stopping`` is set.

    Args:
        settings: where the log and the tables are.
        policy: the thresholds.
        available_now: end when everything that is in the log now is in the tables.
        report: called after each micro-batch, in this thread.
        stopping: set it from anywhere to end the job after the batches that are under way.

    Raises:
        UserError: in one sentence, why it can't start or why a query failed.
    """
    check_source(settings)
    basis = Basis(
        source=source_identity(settings),
        partitions=settings.source.partitions,
        state_partitions=settings.job.state_partitions,
        code_version=version("rebalance-watch"),
        policy=policy,
    )
    with claimed(settings.runtime.checkpoints, settings.runtime.tables, basis) as generation:
        spark = spark_session(settings, "rebalance-watch")
        queries: list[StreamingQuery] = []
        try:
            queries.append(start_operator(spark, settings, policy, generation, available_now=available_now))
            queries.append(start_archive(spark, settings, generation, available_now=available_now))
            _watch(queries, report, stopping or threading.Event())
        finally:
            _stop(queries)


def run_available_now(settings: Settings, policy: Policy) -> None:
    """Bring the tables up to what is in the log now.

    Raises:
        UserError: as `run`.
    """
    run(settings, policy, available_now=True)


def start_operator(
    spark: SparkSession, settings: Settings, policy: Policy, generation: str, *, available_now: bool
) -> StreamingQuery:
    """Start the stateful query."""
    log = read_log(spark, settings).observe("in", F.count(F.lit(1)).alias("rows"))
    effects = effects_of(
        log,
        policy,
        partitions=settings.source.partitions,
        state_partitions=settings.job.state_partitions,
        keyed=settings.source.kind == "kafka",
    ).observe("out", F.count(F.lit(1)).alias("rows"))
    sink = TableSink(settings.runtime.tables, OPERATOR, generation)

    def write(batch: DataFrame, batch_id: int) -> None:
        write_effects(batch, sink, batch_id)

    in_pool(spark, OPERATOR_POOL)
    writer = effects.writeStream.queryName(OPERATOR).foreachBatch(write)
    writer = writer.option("checkpointLocation", str(settings.runtime.checkpoints / OPERATOR))
    seconds = settings.job.trigger_seconds
    return (
        writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime=f"{seconds} seconds")
    ).start()


def _watch(queries: list[StreamingQuery], report: Callable[[Batch], None], stopping: threading.Event) -> None:
    """Report batches until all queries have ended or the job is to stop; a failed query is raised."""
    told = dict.fromkeys((query.name for query in queries), -1)
    while True:
        running = [query.isActive for query in queries]
        for query in queries:
            if (failure := query.exception()) is not None:
                raise failed(query.name, failure)
            for batch in _batches(query, after=told[query.name]):
                report(batch)
                told[query.name] = batch.number
        if not any(running) or stopping.wait(_LOOK_SECONDS):
            return


def _batches(query: StreamingQuery, *, after: int) -> Iterable[Batch]:
    """The batches with rows that ended since."""
    for progress in query.recentProgress:
        observed = progress.observedMetrics
        if progress.batchId > after and "in" in observed:
            yield Batch(
                query=query.name,
                number=progress.batchId,
                rows_in=observed["in"]["rows"],
                rows_out=observed["out"]["rows"],
                milliseconds=progress.durationMs["triggerExecution"],
            )


def _stop(queries: list[StreamingQuery]) -> None:
    """Stop each query between two batches; where batches follow each other without a pause, at the next one's start."""
    deadline = time.monotonic() + _STOP_SECONDS_MAX
    for query in queries:
        under_way = _last_batch(query)
        while (
            query.isActive
            and query.status["isTriggerActive"]
            and _last_batch(query) == under_way
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        query.stop()


def _last_batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return progress.batchId if progress else None


def failed(query: str, failure: StreamingQueryException) -> UserError:
    """A query's failure as one sentence: the user's own, where one was raised inside it."""
    text = str(failure)
    if own := re.search(r"^streaming\.errors\.\w+: (.+)$", text, re.MULTILINE):
        return UserError(own[1])
    return UserError(text)
