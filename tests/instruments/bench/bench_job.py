"""Events a second of the job, compared with two limits: ``python -m tests.instruments.bench job``.

All three run over the same log, whose files have the times of their events, as in life: the operator waits for
stragglers by these. Beside the events a second stands the processor time of an event by process, which another load of
the machine changes least; once in large batches, and once in batches as of 1,000 events a second. Events count when
they are folded, not when they are read. What a live batch exchanges with Spark's state is the same at each run.

The limits are a stateless pass (the same source, shuffle and sink, and the same path
through Python, but without decoding and state), which is the cost of Spark alone; and a plain loop over the same core
on one core of the machine, which is the cost of the core alone. The start is printed apart from the steady state: the
first two of five micro-batches have the start of workers, the JIT, and the first answers of each group, which cost
several times as much as later ones.
"""

import os
import platform
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Annotated, NamedTuple

import msgspec
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  pyspark's own convention
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

from checkpoints.generation import claimed
from checkpoints.manifest import OPERATOR, Basis
from rebalance_model.observe.policy import Policy
from streaming.base.settings import Settings, load_settings
from streaming.log.files import FilePublisher, files_of
from streaming.log.rows import publish
from streaming.pipeline import job
from streaming.pipeline.effects import EFFECT_SCHEMA
from streaming.pipeline.operator import shard_keys
from streaming.pipeline.session import spark_session
from streaming.pipeline.sinks import TableSink, write_effects
from streaming.pipeline.sources import lines_of, read_log
from streaming.pipeline.spark_properties import WORKER_DAEMON
from tests.instruments.bench.exchange import exchanges
from tests.instruments.bench.one_row import one_row
from tests.instruments.figures import keep
from tests.support import plain
from tests.support.compiled import build, importing
from tests.support.processes import command_of, descendants, processor_seconds
from tests.support.standalone import ON_LOOPBACK, Standalone
from tests.support.telemetry import EVENTS_PER_GROUP, spread_telemetry

POLICY = Policy()
BATCHES = 5
STARTING = 0.4
"""The part of the batches that is the start."""
FILES_PER_PARTITION = 10
ROUNDS = {100: 60, 1_000: 20, 10_000: 10}
"""By the number of groups, how many rounds of the collector, 10 s each, are in the log."""
LIVE_BATCHES = 20
LIVE_ROWS = 3_000
"""Of a batch at 1,000 events a second."""
LIVE_GROUPS_MAX = 1_000
"""More groups have more events in a second; and a loop over them alone takes minutes."""


class Cost(NamedTuple):
    """The time of a query in its steady state."""

    rate: float
    """Events a second that were folded."""
    batch_ms: float
    """The mean time of a batch."""
    processor_us: dict[str, float]
    """The processor time of an event by process, with the children that it started, microseconds."""
    start_s: float
    """The processor time of the start, seconds."""

    @property
    def processor(self) -> float:
        """The processor time of an event in all, microseconds."""
        return sum(self.processor_us.values())


def main(
    groups: Annotated[list[int] | None, typer.Option(help=f"Consumer groups: {', '.join(map(str, ROUNDS))}.")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of the collector, 10 s each; 0: by the number of groups.")] = 0,
    workers: Annotated[
        int, typer.Option(help="Workers of a standalone cluster on this machine, one core each; 0: local.")
    ] = 0,
    compiled: Annotated[bool, typer.Option(help="Fold by the compiled core (`make compiled`).")] = False,
) -> None:
    """Measure, print the results beside the last ones, and keep them."""
    console = Console(width=140)
    if compiled:
        os.environ.update(importing(build()))  # the workers', who fold
    for number in groups or ROUNDS:
        with (
            tempfile.TemporaryDirectory(prefix="rebalance-watch-bench-") as folder,
            Standalone(Path(folder) / "cluster", workers) if workers else nullcontext() as cluster,
        ):
            costs, figures = _measured(Path(folder), number, rounds or ROUNDS.get(number, 5), cluster, console)
        console.print(_table(costs))
        as_always = number in ROUNDS and not rounds and not workers
        by = ", compiled core" if compiled else ""
        named = {f"{number:,} groups{by}, {name}": value for name, value in figures.items()}
        console.print(keep("job", named, writes=as_always))


def _measured(
    root: Path, groups: int, rounds: int, cluster: Standalone | None, console: Console
) -> tuple[dict[str, Cost], dict[str, float]]:
    """Return what the passes and the job cost, and the figures that are kept."""
    large, live = (_settings(root / name, cluster) for name in ("large", "live"))
    rows, size = _write_log(large, groups, rounds, FILES_PER_PARTITION)
    logs = {"": (large, FILES_PER_PARTITION // BATCHES)}
    if groups <= LIVE_GROUPS_MAX:
        _write_log(live, groups, LIVE_BATCHES * LIVE_ROWS // (groups * EVENTS_PER_GROUP), LIVE_BATCHES)
        logs[", live batches"] = live, 1
    console.print(
        f"{rows:,} rows of {groups:,} groups, {size / 1e6:,.0f} MB; {os.cpu_count()} cores, "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        highlight=False,
    )
    spark = spark_session(large, "bench")
    costs, figures = dict[str, Cost](), dict[str, float]()
    if groups <= LIVE_GROUPS_MAX:
        figures["plain loop on one core, events/s"] = _plain(large)
    for name, (settings, files) in logs.items():
        exchanged = list(
            exchanges(settings.log_path, settings.source.partitions, POLICY, files * settings.source.partitions)
        )
        start, exchanged = exchanged[starting(len(exchanged)) - 1], exchanged[starting(len(exchanged)) :]
        folded = 1 - (exchanged[-1].buffered - start.buffered) / sum(one.rows for one in exchanged)
        passed = _measure(spark, settings, "stateless", files)
        done = _measure(spark, settings, "job", files, folded)
        costs |= {f"stateless pass{name}": passed, f"the job{name}": done}
        figures |= {
            f"the job{name}, events/s": done.rate,
            f"the job{name}, of the stateless pass": done.rate / passed.rate,
            f"the job{name}, µs an event": done.processor,
            f"the job{name}, processor seconds of the start": done.start_s,
            f"the job{name}, processor time of the stateless pass's": done.processor / passed.processor,
            f"the job{name}, state calls a batch": mean(one.calls for one in exchanged),
            f"the job{name}, state kB read a batch": mean(one.read for one in exchanged) / 1e3,
            f"the job{name}, state kB written a batch": mean(one.written for one in exchanged) / 1e3,
            f"the job{name}, events buffered after a batch": mean(one.buffered for one in exchanged),
        }
    spark.stop()
    return costs, figures


def _table(costs: dict[str, Cost]) -> Table:
    kinds = ("workers", "JVM", "driver")
    table = Table("", "events/s", "of the stateless pass", "ms a batch", "µs an event", *kinds, "start, s")
    for name, cost in costs.items():
        limit = costs[name.replace("the job", "stateless pass")].rate
        shares = (f"{value:,.0f}" for value in (cost.batch_ms, cost.processor, *map(cost.processor_us.get, kinds)))
        table.add_row(name, f"{cost.rate:,.0f}", f"{cost.rate / limit:.2f}", *shares, f"{cost.start_s:,.1f}")
    return table


def _settings(root: Path, cluster: Standalone | None) -> Settings:
    jars = load_settings().runtime.jars.resolve()
    jars.mkdir(parents=True, exist_ok=True)
    root.mkdir()
    (root / "jars").symlink_to(jars)
    elsewhere = ON_LOOPBACK | {"spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[3])}
    return load_settings(
        runtime={"root": root},
        source={"kind": "files"},
        job={"master": cluster.url} if cluster else {},
        spark=elsewhere if cluster else {},
    )


def _write_log(settings: Settings, groups: int, rounds: int, files: int) -> tuple[int, int]:
    """Write the log, each partition in so many files of about equal size; return its rows and bytes."""
    partitions = settings.source.partitions
    events = list(spread_telemetry(groups, rounds))
    copies = [partitions if event.BROADCAST else 1 for event in events]
    size = sum(len(msgspec.json.encode(event)) * count for event, count in zip(events, copies, strict=True))
    with FilePublisher(
        settings.log_path, partitions, file_bytes_max=size // partitions // files, roll_seconds=1e9
    ) as publisher:
        publish(publisher, events)
    set_times(settings.log_path, partitions)
    return sum(copies), size


def starting(batches: int) -> int:
    """Return how many of the batches are the start."""
    return max(1, round(STARTING * batches))


def set_times(log: Path, partitions: int) -> None:
    """Give each file the time of its last event, as a log has that is written while things happen."""
    ends = sorted(
        (msgspec.json.decode(list(lines_of(file.read_bytes()))[-1], type=_Timed).time, partition, file)
        for partition in range(partitions)
        for file in files_of(log, partition)
    )
    for number, (time_ms, _, file) in enumerate(ends):  # a reader wants the times of all files to rise
        os.utime(file, ns=((time_ms + number) * 1_000_000,) * 2)


class _Timed(msgspec.Struct):
    time: int


def _plain(settings: Settings) -> float:
    begin = time.perf_counter()
    count = 0
    for partition in range(settings.source.partitions):
        rows = plain.rows_of(settings.log_path, partition)
        count += len(rows)
        plain.effects(rows, POLICY)
    return count / (time.perf_counter() - begin)


def _measure(spark: SparkSession, settings: Settings, what: str, files: int, folded: float = 1.0) -> Cost:
    """Return what a query costs in its steady state, and its start.

    Args:
        spark: the session.
        settings: with the log.
        what: "job" or "stateless".
        files: how many files of each partition are a batch.
        folded: the part of the rows read that was folded; the others wait for their turn at the end.
    """
    root = settings.runtime.root / what
    source = settings.source.model_copy(
        update={"path": str(settings.log_path), "files_per_batch": files * settings.source.partitions}
    )
    settings = settings.model_copy(
        update={"runtime": settings.runtime.model_copy(update={"root": root}), "source": source}
    )
    basis = Basis(source="bench", partitions=0, state_partitions=0, code_version="", policy=POLICY)
    with claimed(settings.runtime.checkpoints, settings.runtime.tables, basis) as generation:
        if what == "job":
            start = partial(job.start_operator, spark, settings, POLICY, generation, available_now=True)
        else:
            start = partial(_stateless, spark, settings, generation)
        begun = _processor_seconds()
        with job.Running([start], root) as running:
            all_batches = running.batches(threading.Event())
            number = starting(len(files_of(settings.log_path, 0)) // files)
            for _ in range(number):
                next(all_batches)
            before = _processor_seconds()
            batches = list(all_batches)
            after = _processor_seconds()
    rows = folded * sum(batch.rows for batch in batches)
    milliseconds = sum(batch.milliseconds for batch in batches)
    times = {kind: (after[kind] - before[kind]) / rows * 1e6 for kind in ("workers", "JVM", "driver")}
    rate, start_s = rows / milliseconds * 1000, sum(before.values()) - sum(begun.values())
    return Cost(rate, milliseconds / len(batches), times, start_s)


def _processor_seconds() -> Counter[str]:
    """Return the processor time so far of the driver, its JVM, and the workers."""
    used = Counter({"driver": time.process_time()})
    for pid in descendants(os.getpid()):
        command = command_of(pid)
        if WORKER_DAEMON.encode() in command:
            used["workers"] += processor_seconds(pid)
        elif command and command[0].endswith(b"java"):
            used["JVM"] += processor_seconds(pid)
    return used


def _stateless(spark: SparkSession, settings: Settings, generation: str) -> StreamingQuery:
    keys = F.array(*map(F.lit, shard_keys(spark, settings.source.partitions, settings.job.state_partitions)))
    log = read_log(spark, settings).withColumn("shard", F.get(keys, F.col("partition")))
    passed = log.repartition(settings.job.state_partitions, "shard").mapInArrow(one_row, EFFECT_SCHEMA)
    sink = TableSink(settings.runtime.tables, OPERATOR, generation)

    def write(batch: DataFrame, batch_id: int) -> None:
        write_effects(batch, sink, batch_id)

    writer = passed.writeStream.queryName("stateless").foreachBatch(write).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(settings.runtime.checkpoints / "stateless")).start()


if __name__ == "__main__":
    sys.exit(typer.run(main))
