"""Events a second of the job, compared with two limits: ``python -m tests.bench.bench_job``.

All three run over the same log. The limits are a stateless pass (the same source, shuffle and sink, and the same path
through Python, but without decoding and state), which is the cost of Spark alone; and a plain loop over the same core
on one core of the machine, which is the cost of the core alone. The first micro-batch includes the start of workers and
the JIT: it is omitted from both queries.
"""

import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import pyarrow as pa
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  pyspark's own convention
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

from checkpoints.generation import claimed
from checkpoints.manifest import OPERATOR, Basis
from rebalance_model.observe.effects import TABLE_OF, GroupSnapshot
from rebalance_model.observe.policy import Policy
from streaming.base.settings import Settings, load_settings
from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from streaming.pipeline import job
from streaming.pipeline.operator import shard_keys
from streaming.pipeline.session import spark_session
from streaming.pipeline.sinks import TableSink, write_effects
from streaming.pipeline.sources import read_log
from tests.support import plain
from tests.support.standalone import ON_LOOPBACK, Standalone
from tests.support.telemetry import telemetry

POLICY = Policy()
BATCHES = 5
FILES_PER_PARTITION = 10


def main(
    groups: Annotated[int, typer.Option(help="Consumer groups.")] = 1_000,
    rounds: Annotated[int, typer.Option(help="Rounds of the collector, 10 s each.")] = 40,
    workers: Annotated[
        int, typer.Option(help="Workers of a standalone cluster on this machine, one core each; 0: local.")
    ] = 0,
) -> None:
    """Measure and print the results."""
    console = Console()
    with (
        tempfile.TemporaryDirectory(prefix="rebalance-watch-bench-") as folder,
        Standalone(Path(folder) / "cluster", workers) if workers else nullcontext() as cluster,
    ):
        settings = _settings(Path(folder), cluster)
        rows, size = _write_log(settings, groups, rounds)
        console.print(
            f"{rows:,} rows of {groups:,} groups, {size / 1e6:,.0f} MB; {os.cpu_count()} cores, "
            f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
            highlight=False,
        )
        alone = _plain(settings)
        spark = spark_session(settings, "bench")
        stateless = _measure(spark, settings, "stateless")
        whole = _measure(spark, settings, "job")
        spark.stop()
    table = Table("", "events/s", "of the stateless pass", "of the plain loop")
    for name, rate in (("stateless pass", stateless), ("plain loop, one core", alone), ("the job", whole)):
        table.add_row(name, f"{rate:,.0f}", f"{rate / stateless:.0%}", f"{rate / alone:.0%}")
    console.print(table)


def _settings(root: Path, cluster: Standalone | None) -> Settings:
    jars = load_settings().runtime.jars
    jars.mkdir(parents=True, exist_ok=True)
    (root / "jars").symlink_to(jars)
    partitions = load_settings().source.partitions
    elsewhere = ON_LOOPBACK | {"spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2])}
    return load_settings(
        runtime={"root": root},
        source={"files_per_batch": partitions * FILES_PER_PARTITION // BATCHES, "kind": "files"},
        job={"master": cluster.url} if cluster else {},
        spark=elsewhere if cluster else {},
    )


def _write_log(settings: Settings, groups: int, rounds: int) -> tuple[int, int]:
    """Write the log, each partition in files of about equal size; return its rows and bytes."""
    partitions = settings.source.partitions
    events = list(telemetry(groups, rounds))
    copies = [partitions if event.BROADCAST else 1 for event in events]
    size = sum(len(msgspec.json.encode(event)) * count for event, count in zip(events, copies, strict=True))
    with FilePublisher(
        settings.log_path, partitions, file_bytes_max=size // partitions // FILES_PER_PARTITION, roll_seconds=1e9
    ) as publisher:
        publish(publisher, events)
    return sum(copies), size


def _plain(settings: Settings) -> float:
    begin = time.perf_counter()
    count = 0
    for partition in range(settings.source.partitions):
        rows = plain.rows_of(settings.log_path, partition)
        count += len(rows)
        plain.effects(rows, POLICY)
    return count / (time.perf_counter() - begin)


def _measure(spark: SparkSession, settings: Settings, what: str) -> float:
    """Return the events a second of a query from its second batch on."""
    root = settings.runtime.root / what
    source = settings.source.model_copy(update={"path": str(settings.log_path)})
    settings = settings.model_copy(
        update={"runtime": settings.runtime.model_copy(update={"root": root}), "source": source}
    )
    basis = Basis(source="bench", partitions=0, state_partitions=0, code_version="", policy=POLICY)
    with claimed(settings.runtime.checkpoints, settings.runtime.tables, basis) as generation:
        if what == "job":
            start = partial(job.start_operator, spark, settings, POLICY, generation, available_now=True)
        else:
            start = partial(_stateless, spark, settings, generation)
        with job.Running([start], root) as running:
            batches = list(running.batches(threading.Event()))[1:]
    return sum(batch.rows for batch in batches) / sum(batch.milliseconds for batch in batches) * 1000


def _stateless(spark: SparkSession, settings: Settings, generation: str) -> StreamingQuery:
    keys = F.array(*map(F.lit, shard_keys(spark, settings.source.partitions, settings.job.state_partitions)))
    log = read_log(spark, settings).withColumn("shard", F.get(keys, F.col("partition")))
    passed = log.repartition(settings.job.state_partitions, "shard").mapInArrow(_one_row, "kind STRING, payload STRING")
    sink = TableSink(settings.runtime.tables, OPERATOR, generation)

    def write(batch: DataFrame, batch_id: int) -> None:
        write_effects(batch, sink, batch_id)

    writer = passed.writeStream.queryName("stateless").foreachBatch(write).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(settings.runtime.checkpoints / "stateless")).start()


def _one_row(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass all bytes to Python, and one row back for the sink."""
    size = sum(len(value) for batch in batches for value in batch.column("value").to_pylist())
    row = GroupSnapshot(
        cluster="c",
        group="g",
        time=size,
        known_at=size,
        seq=0,
        cause="",
        members=(),
        subscriptions=(),
        consume_type="",
        message_model="",
        consume_from_where="",
        orderly=None,
        strategy=None,
        health="OK",
        health_reason="",
        coverage="",
    )
    yield pa.RecordBatch.from_pylist([{"kind": TABLE_OF[GroupSnapshot], "payload": msgspec.json.encode(row).decode()}])


if __name__ == "__main__":
    sys.exit(typer.run(main))
