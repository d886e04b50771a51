"""The job: two queries over one log, the stateful operator and the archive, until they end or are stopped.

The operator's results and the archive are independent: each has its checkpoint, its trigger and its share of the cores
(a pool of the fair scheduler), so a slow archive delays no incident.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Self

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  pyspark's own convention
from pyspark.sql.streaming.query import StreamingQuery

from checkpoints.generation import check_log, claimed
from checkpoints.lease import Lease, LeaseLostError
from checkpoints.manifest import ARCHIVE, OPERATOR, Basis, required_manifest
from checkpoints.quality import QualityStop
from checkpoints.spark_files import check_state
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import STATE_VERSION
from streaming.base.errors import SettingsError, UserError
from streaming.base.place import queries_of, tables_of
from streaming.base.process import GIVE_BACK_SECONDS, Pace, give_back
from streaming.base.settings import Settings
from streaming.log.identity import LogId, log_id
from streaming.pipeline.archive import start_archive
from streaming.pipeline.batches import EFFECTS, Batch, BatchTimes, ended_batches
from streaming.pipeline.hadoop import uses_s3a
from streaming.pipeline.job_watch import LogWatch, failed, is_of_other_run, lost_by
from streaming.pipeline.operator import effects_of
from streaming.pipeline.rebuild.folder import Folder
from streaming.pipeline.session import OPERATOR_POOL, alive, in_pool, spark_session
from streaming.pipeline.sinks import TableSink, started, sync_state, write_effects
from streaming.pipeline.sources import check_source, read_log, source_identity

_REPLACED = "a batch to the former run (it noticed late that it was replaced)"
_STARTS_MAX = 10
"""The number of starts of a query in a row without the end of a batch; with the pauses that takes more than three
minutes."""
_PAUSE_SECONDS_MAX = 60.0
_LOOK_SECONDS = 0.25
"""The interval at which a query is asked whether it has ended, or has a new progress; three calls into the JVM."""
_STATUS_SECONDS = 1.0
"""The interval at which a query is asked whether it waits for rows: an answer takes about 2 ms."""
_STOP_SECONDS_MAX = 5
"""The longest time that a batch may take to its end when the process is to end; then it is interrupted, and the next
start repeats it."""
_SWAP_SECONDS_MAX = 60
"""The longest time that a batch may take to its end when the queries start again in this process."""
_DID_NOT_STOP = "failed to stop within"
"""Text in Spark's error about a query that does not stop when interrupted (spark.sql.streaming.stopTimeout)."""


@dataclass(frozen=True)
class JobListener:
    """Callbacks of the job while it starts and runs."""

    on_progress: Callable[[str], None] = lambda _: None
    """Called with a query that has ended a batch or waits for rows; for a query that waits, about once a second."""
    on_restart: Callable[[str, str], None] = lambda *_: None
    """Called with a query that is started again, and a sentence."""
    on_wait: Callable[[str], None] | None = None
    """Called with another run that works on the same checkpoints, twice a second; None: do not start then."""


_SILENT = JobListener()


@dataclass(eq=False)
class Running:
    """The queries of the running job; see `running`."""

    starts: Sequence[Callable[[], StreamingQuery]]
    logs: Path
    is_interrupted: Callable[[], bool] = lambda: False
    """True if the queries must end and start again, because a rebuild waits to be swapped in."""
    listener: JobListener = _SILENT
    checks: Sequence[Callable[[], None]] = ()
    """Each raises an error when the job must end."""
    confirm: Callable[[], bool] = lambda: False
    """True if it is certain, at this moment, that no other run may write; raises an error if one may."""
    explain: Callable[[], None] = lambda: None
    """Raises an error that says more about the failure of a query than the query itself."""
    times: Mapping[str, BatchTimes] = field(default_factory=dict)
    """When the parts of the batches ran, by query."""
    was_interrupted: bool = field(default=False, init=False)
    """True if `batches` ended for the swap of a rebuild, which may be withdrawn while the queries end."""
    _stopping: threading.Event = field(default_factory=threading.Event, init=False)
    _starts_in_row: defaultdict[int, int] = field(default_factory=lambda: defaultdict(lambda: 1), init=False)
    """The number of starts of each query since its last batch; 1 after a batch, so that the next start is at once."""
    _start_at: dict[int, float] = field(default_factory=dict, init=False)
    """When a query that has failed is started again, by the monotonic clock."""
    _queries: list[StreamingQuery] = field(default_factory=list, init=False)
    _newest: dict[str, tuple[int, str]] = field(default_factory=dict, init=False)
    """Batch id and time of the newest progress of each query that was looked at."""

    def __enter__(self) -> Self:
        try:
            for start in self.starts:
                self._queries.append(self._started(start))
        except BaseException:
            _stop(self._queries, _STOP_SECONDS_MAX)
            raise
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Stop the queries.

        Raises:
            UserError: the batch of one hangs, as in a write to a storage that does not answer, and nothing else says
                that the process ends.
        """
        seconds = _STOP_SECONDS_MAX if self._stopping.is_set() else _SWAP_SECONDS_MAX
        hung = _stop(self._queries, 0 if error is LeaseLostError else seconds)
        for name in hung:
            self.listener.on_restart(name, f"the batch of the {name} query did not end: the next start repeats it")
        if hung and error is None and not self._stopping.is_set():
            raise UserError(
                f"The batch of the query {' and '.join(hung)} hangs. This run has ended without it; no row is lost or "
                "doubled, and the next start repeats the batch."
            )

    def batches(self, stopping: threading.Event) -> Iterator[Batch]:
        """Yield each micro-batch as it ends, until all queries end, ``stopping`` is set, or `was_interrupted`.

        Raises:
            LeaseLostError: another run may write now.
            UserError: a query failed, or a check of the tables stops the job.
        """
        self._stopping = stopping
        last = dict.fromkeys((query.name for query in self._queries), -1)
        status, memory = Pace(_STATUS_SECONDS), Pace(GIVE_BACK_SECONDS, first=GIVE_BACK_SECONDS)
        running = True
        while running and not stopping.wait(_LOOK_SECONDS):
            self.was_interrupted = self.is_interrupted()
            if self.was_interrupted:
                return
            for check in self.checks:
                check()
            running = any(query.isActive for query in self._queries)  # checked first, so that no batch is missed
            if memory.is_due():
                # Of a batch some 30 objects of py4j are in cycles; as long as they live, the JVM keeps the batch's plan
                # and the files of its shuffles. By itself Python frees them once in a quarter of an hour.
                give_back()
            looks = status.is_due()
            for index, query in enumerate(self._queries):
                for batch in self._ended(query, after=last[query.name]):
                    self.listener.on_progress(query.name)
                    self._starts_in_row[index] = 1
                    yield batch
                    last[query.name] = batch.number
                if (failure := query.exception()) is not None:
                    self._start_again(index, failure)
                    running = True
                elif looks and not query.status["isTriggerActive"]:
                    self.listener.on_progress(query.name)

    def _ended(self, query: StreamingQuery, *, after: int) -> Iterable[Batch]:
        """Return the batches with rows that ended after a batch id.

        All that Spark keeps of a query is read only if there is something new: each costs calls of the JVM and a text
        of kilobytes, which ten times a second took a quarter of a core.
        """
        newest = query.lastProgress
        if newest is None or self._newest.get(query.name) == (newest.batchId, newest.timestamp):
            return ()
        self._newest[query.name] = (newest.batchId, newest.timestamp)
        return ended_batches(query, self.times.get(query.name), after=after)

    def _started(self, start: Callable[[], StreamingQuery]) -> StreamingQuery:
        try:
            return start()
        except Py4JJavaError as error:  # as of a file system that refuses the checkpoint
            cause = error.java_exception
            while cause.getCause() is not None:
                cause = cause.getCause()
            raise _did_not_start(cause.toString(), self.logs) from error
        except PySparkException as error:
            raise _did_not_start(str(error), self.logs) from error

    def _start_again(self, index: int, failure: StreamingQueryException) -> None:
        """Start a query again that lost a worker, executors, Kafka or a race: after its last recorded batch.

        The first start is made at once, further ones in a row after growing pauses: what kills workers, such as a lack
        of memory, or lets them come too late, may last for minutes.
        """
        if index not in self._start_at:
            self._start_at[index] = time.monotonic() + self._pause(index, failure)
        if time.monotonic() >= self._start_at[index]:
            del self._start_at[index]
            self._starts_in_row[index] += 1
            self._queries[index] = self._started(self.starts[index])

    def _pause(self, index: int, failure: StreamingQueryException) -> float:
        """Return the seconds until the next start of a query that has just failed; raise if there is none."""
        name, starts = self._queries[index].name, self._starts_in_row[index]
        lost = lost_by(failure)
        if is_of_other_run(failure) and self.confirm():
            lost = _REPLACED
        if lost is None or starts >= _STARTS_MAX:
            self.explain()
            raise failed(name, failure, self.logs)
        pause = min(2.0 ** (starts - 2), _PAUSE_SECONDS_MAX) if starts > 1 else 0.0
        when = f" in {pause:g} s" if pause else ""
        self.listener.on_restart(name, f"the {name} query lost {lost} and is started again{when}")
        return pause


@contextmanager
def running(
    settings: Settings,
    policy: Policy,
    *,
    available_now: bool = False,
    listener: JobListener = _SILENT,
) -> Iterator[Running]:
    """Start both queries, after the swap of a rebuild if one is ready; at the end, stop each between two batches.

    ``available_now``: end when all rows that are in the log now have been processed.

    Raises:
        UserError: the queries can't start, or a check of the tables stops the job.
    """
    check_source(settings)
    _check_standby(settings, listener)
    if listener.on_wait is not None and settings.job.is_local:  # executors elsewhere would wait with it
        spark_session(settings, "rebalance-watch")
    checkpoints = settings.runtime.checkpoints
    with (
        Lease.acquire(checkpoints, listener.on_wait) as lease,
        claimed(
            checkpoints,
            tables_of(settings),
            _basis(settings, policy),
            lease,
            queries_of(settings),
            versions_days=settings.tables.versions_days,
        ) as generation,
    ):
        stop = QualityStop(tables_of(settings))
        stop.check()
        spark = spark_session(settings, "rebalance-watch")
        logs = settings.runtime.root / "logs"
        _take_over(settings, generation, lambda: spark)
        if not settings.storage.checkpoints:
            check_state(checkpoints / OPERATOR)
        times = {OPERATOR: BatchTimes(), ARCHIVE: BatchTimes()}
        starts = (
            partial(
                start_operator, spark, settings, policy, generation, lease,
                available_now=available_now, times=times[OPERATOR],
            ),
            partial(
                start_archive, spark, settings, generation, lease,
                available_now=available_now, times=times[ARCHIVE], after=times[OPERATOR],
            ),
        )  # fmt: skip
        rebuilds = Folder(checkpoints)
        # A lease below the root says nothing of a run elsewhere that works on the same checkpoints.
        confirm = (lambda: False) if settings.storage.checkpoints else lease.confirm
        watch = LogWatch(settings, source_identity(settings), _claimed_basis(settings).log)
        checks = (lease.check, stop.check, watch.check)
        made = Running(
            starts, logs, lambda: rebuilds.ready() is not None, listener,
            checks=checks, confirm=confirm, explain=watch.explain, times=times,
        )  # fmt: skip
        with alive(logs), watch, made as job:
            yield job
        if available_now:  # the whole log of the checkpoints, and not of another one
            watch.inspect()


def _check_standby(settings: Settings, listener: JobListener) -> None:
    if listener.on_wait is not None and uses_s3a(settings):
        raise SettingsError(
            "--standby can't be used with storage.checkpoints in an object store, which does not notice a second run: "
            "omit it, or keep the checkpoints on HDFS or a shared folder."
        )


def _basis(settings: Settings, policy: Policy) -> Basis:
    """Return what the state of a run with these settings is made with."""
    return Basis(
        source=source_identity(settings),
        partitions=settings.source.partitions,
        state_partitions=settings.job.state_partitions,
        log=log_id(settings) or LogId(),
        code_version=version("rebalance-watch"),
        policy=policy,
        state_version=STATE_VERSION,
    )


@contextmanager
def claimed_as_is(settings: Settings) -> Iterator[None]:
    """Hold checkpoints and tables with the last run's settings, without a query; swap in a rebuild that is ready.

    Raises:
        UserError: another run holds them, or they do not belong together.
    """
    days, basis = settings.tables.versions_days, required_manifest(settings.runtime.checkpoints).basis
    with claimed(settings.runtime.checkpoints, tables_of(settings), basis, versions_days=days) as generation:
        _take_over(settings, generation, lambda: spark_session(settings, "rebalance-watch"))
        yield


def _take_over(settings: Settings, generation: str, session: Callable[[], SparkSession]) -> None:
    """Swap in a rebuild if one is ready; a session is needed if the archive is behind, or the state can't be read."""
    checkpoints, logs = settings.runtime.checkpoints, settings.runtime.root / "logs"
    if Folder(checkpoints).ready() is None:
        return
    from streaming.pipeline.empty_state import write_empty_state
    from streaming.pipeline.rebuild.take_over import take_over

    def archive_to_end() -> None:
        check_source(settings)
        basis = _claimed_basis(settings)
        check_log(basis.source, basis.log, log_id(settings))
        start = partial(start_archive, session(), settings, generation, available_now=True)
        with alive(logs), Running([start], logs) as job:
            for _ in job.batches(threading.Event()):
                pass

    def empty_state(copy: Path) -> None:
        with alive(logs):
            write_empty_state(session(), copy, place=checkpoints / OPERATOR, basis=_claimed_basis(settings))

    take_over(checkpoints, tables_of(settings), archive_to_end, empty_state)


def _claimed_basis(settings: Settings) -> Basis:
    return required_manifest(settings.runtime.checkpoints).basis


def run_available_now(settings: Settings, policy: Policy) -> list[Batch]:
    """Process all rows that are in the log now.

    Raises:
        UserError: see `running` and `Running.batches`.
    """
    with running(settings, policy, available_now=True) as job:
        return list(job.batches(threading.Event()))


def start_operator(
    spark: SparkSession,
    settings: Settings,
    policy: Policy,
    generation: str,
    lease: Lease | None = None,
    *,
    available_now: bool,
    times: BatchTimes | None = None,
) -> StreamingQuery:
    """Start the stateful query; it writes nothing after the lease is lost."""
    checkpoints = settings.runtime.checkpoints
    manifest = required_manifest(checkpoints)
    effects = effects_of(
        read_log(spark, settings),
        policy,
        partitions=settings.source.partitions,
        state_partitions=settings.job.state_partitions,
        keyed=settings.source.kind == "kafka",
        seeds=Folder(checkpoints).seeds(manifest.seed) if manifest.seed else None,
    ).observe(EFFECTS, F.coalesce(F.sum("rows"), F.lit(0)).alias("rows"))
    sink = TableSink(
        tables_of(settings), OPERATOR, generation, manifest.swapped, manifest.repeated_until,
        times=times or BatchTimes(),
    )  # fmt: skip

    def write(batch: DataFrame, batch_id: int) -> None:
        write_effects(batch, sink, batch_id)
        if not settings.storage.checkpoints:
            with sink.times.part(batch_id, "sync the state"):
                sync_state(checkpoints / OPERATOR, batch_id)

    in_pool(spark, OPERATOR_POOL)
    seconds = None if available_now else settings.job.trigger_seconds
    return started(effects, sink, write, settings, lease, seconds=seconds)


def _did_not_start(why: str, logs: Path) -> UserError:
    return UserError(f"A query could not start: {why.splitlines()[0]} (details are in {logs}).")


def _stop(queries: list[StreamingQuery], seconds: float) -> list[str]:
    """Stop all queries at the same time; return the names of those that do not stop when they are interrupted."""
    deadline = time.monotonic() + seconds
    with ThreadPoolExecutor(max(1, len(queries))) as stopping:
        hang = stopping.map(partial(_hangs, deadline), queries)
        return [query.name for query, hangs in zip(queries, hang, strict=True) if hangs]


def _hangs(deadline: float, query: StreamingQuery) -> bool:
    """Stop a query between two batches; if batches follow each other without a pause, at the next one's start.

    After the deadline its batch is interrupted. Return whether it does not end, as a write that hangs.
    """
    under_way = _last_batch(query)
    while (
        query.isActive
        and query.status["isTriggerActive"]
        and _last_batch(query) == under_way
        and time.monotonic() < deadline
    ):
        time.sleep(0.01)
    try:
        query.stop()
    except Py4JJavaError as error:
        if _DID_NOT_STOP not in str(error.java_exception):
            raise
        return True
    return False


def _last_batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return progress.batchId if progress else None
