"""The job as a whole, over file logs, against the same core in a plain loop."""

import gc
import gzip
import os
import random
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import Mock

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from py4j.finalizer import ThreadSafeFinalizer
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from checkpoints.generation import claimed
from checkpoints.lease import LeaseLostError
from checkpoints.manifest import Basis
from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.base.errors import UserError
from streaming.base.settings import Settings
from streaming.log.files import FilePublisher, files_of
from streaming.log.rows import publish
from streaming.pipeline import batches, job
from streaming.pipeline.session import spark_session
from tests.support.plain import as_json, derived_rows
from tests.support.tables import read_rows
from tests.support.telemetry import telemetry

pytestmark = pytest.mark.spark

PARTITIONS = 3
POLICY = Policy()


def write_log(root: Path, *, groups: int = 6, rounds: int = 40, file_bytes: int = 300_000) -> None:
    with FilePublisher(root, PARTITIONS, file_bytes_max=file_bytes, roll_seconds=1e9) as publisher:
        publish(publisher, telemetry(groups, rounds))


def tables_of(settings: Settings) -> dict[str, list[str]]:
    """The rows of every derived table that has any, in the form of `derived_rows`."""
    rows = {table: read_rows(settings.runtime.tables, table) for table in DERIVED}
    return {table: sorted(map(as_json, found)) for table, found in rows.items() if found}


def run_operator(spark, settings: Settings, *, policy: Policy = POLICY) -> int:
    """Run the stateful query alone over the log; returns how many batches it took."""
    basis = Basis(
        source="test", partitions=PARTITIONS, state_partitions=settings.job.state_partitions, code_version="1",
        policy=policy,
    )  # fmt: skip
    with claimed(settings.runtime.checkpoints, settings.runtime.tables, basis) as generation:
        start = partial(job.start_operator, spark, settings, policy, generation, available_now=True)
        with job.Running([start], settings.runtime.root) as running:
            return len(list(running.batches(threading.Event())))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("telemetry") / "log"
    write_log(root)
    return root


@pytest.fixture(scope="module")
def expected(log: Path) -> dict[str, list[str]]:
    rows = derived_rows(log, PARTITIONS, POLICY)
    assert set(rows) == set(DERIVED), "a log that leads to nothing proves nothing"
    return rows


class FileByFile(NamedTuple):
    """A run by a policy of its own, in batches of one file."""

    settings: Settings
    batches: int
    kept: int
    """The objects of the JVM that Python has kept of all batches."""


STRICT = Policy(stuck_after=25_000)


@pytest.fixture(scope="module")
def file_by_file(spark, settings_in, tmp_path_factory, log) -> FileByFile:
    settings = settings_in(tmp_path_factory.mktemp("file"), path=str(log), partitions=PARTITIONS, files_per_batch=1)
    gc.collect()
    gc.disable()  # by itself Python comes to it rarely
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(job, "GIVE_BACK_SECONDS", 0.0)
            before = len(ThreadSafeFinalizer.finalizers)
            batches = run_operator(spark, settings, policy=STRICT)
            return FileByFile(settings, batches, len(ThreadSafeFinalizer.finalizers) - before)
    finally:
        gc.enable()


def test_rows_depend_on_the_policy_and_not_on_where_the_log_is_cut(file_by_file, log, expected):
    assert file_by_file.batches == sum(len(files_of(log, partition)) for partition in range(PARTITIONS))
    assert tables_of(file_by_file.settings) == derived_rows(log, PARTITIONS, STRICT) != expected


@pytest.mark.prove
@pytest.mark.parametrize("files_per_batch", [2, 3, 5, 1000])
def test_the_rows_do_not_depend_on_where_the_log_is_cut(spark, settings_in, tmp_path, log, expected, files_per_batch):
    files = sum(len(files_of(log, partition)) for partition in range(PARTITIONS))
    settings = settings_in(tmp_path, path=str(log), partitions=PARTITIONS, files_per_batch=files_per_batch)
    batches = run_operator(spark, settings)
    assert batches == -(-files // files_per_batch)
    assert tables_of(settings) == expected


def test_the_jvm_keeps_no_plan_of_a_batch_that_has_ended(file_by_file):
    assert file_by_file.batches > 5
    assert file_by_file.kept < 4 * file_by_file.batches, "30 for each batch without it"


@pytest.mark.parametrize(("files_per_batch", "shift_ms"), [(1000, 0), (1, -5)], ids=["equal", "reversed"])
def test_files_of_equal_or_reversed_mtimes_stop_the_job_with_a_sentence(
    spark, settings_in, tmp_path, files_per_batch, shift_ms
):
    write_log(tmp_path / "log", rounds=20, file_bytes=100_000)
    first, second = files_of(tmp_path / "log", 1)[:2]
    mtime = first.stat().st_mtime_ns + shift_ms * 1_000_000
    os.utime(second, ns=(mtime, mtime))
    settings = settings_in(tmp_path, partitions=PARTITIONS, files_per_batch=files_per_batch)
    with pytest.raises(UserError) as caught:
        run_operator(spark, settings)
    assert str(caught.value).startswith(("In partition 1 of the log", "Partition 1 of the log"))
    assert "\n" not in str(caught.value)


def test_a_row_beyond_the_partition_count_stops_the_job_with_a_sentence(spark, settings_in, tmp_path):
    write_log(tmp_path / "log", rounds=2)
    (tmp_path / "log/partition=3").mkdir()
    (tmp_path / "log/partition=3/00000000000000000000.jsonl").write_bytes(b"{}\n")
    with pytest.raises(UserError, match=r"^The log has a row in partition 3, but this job was made for 3 partitions"):
        run_operator(spark, settings_in(tmp_path, partitions=PARTITIONS))


def test_another_failure_is_one_sentence_too_and_a_new_start_goes_on(
    spark, settings_in, tmp_path, log, expected, monkeypatch
):
    settings = settings_in(tmp_path, path=str(log), partitions=PARTITIONS)
    with monkeypatch.context() as patch:
        patch.setattr(job, "write_effects", lambda *_: 1 / 0)
        with pytest.raises(UserError, match=r"^The operator query failed: ZeroDivisionError: division by zero \("):
            run_operator(spark, settings)
    run_operator(spark, settings)
    assert tables_of(settings) == expected


BAD_LINES = {
    b"": "empty",
    b"no json": "malformed",
    b'{"type":"TICK"}\r{"type":"TICK"}': "bare_cr",
    b'{"type":"TICK","cluster":"\xff"}': "invalid_utf8",
    b'{"type":"NEVER_SEEN","time":1}': "unknown_type",
    b'{"type":"TICK","time":"noon","cluster":"c","source":"poll","source_id":"p@1","seq":1}': "invalid",
    b'{"type":"TICK","time":' + b"9" * 26 + b',"cluster":"c","source":"poll","source_id":"p@1","seq":1}': "invalid",
    b'{"type":"TICK","time":9000000000000,"cluster":"c","source":"poll","source_id":"p@1","seq":1}': "future_time",
    b'"' + b"x" * 1_000_001 + b'"': "too_large",
}


def test_bad_input_is_rejected_whole_with_a_reason_and_the_job_goes_on(spark, settings_in, tmp_path):
    del spark  # the job takes the session that is there
    write_log(tmp_path / "log", rounds=20)
    expected = derived_rows(tmp_path / "log", PARTITIONS, POLICY)
    good = sum(len(gzip.decompress(file.read_bytes()).splitlines()) for file in (tmp_path / "log").glob("*/*.gz"))
    torn = gzip.compress(b"one\ntwo\nx" + random.Random(0).randbytes(1000).hex().encode())[:-100]
    add_file(tmp_path / "log", 0, b"".join(line + b"\n" for line in BAD_LINES))
    add_file(tmp_path / "log", 1, b'{"type":"TICK","time":1', suffix=".jsonl")
    add_file(tmp_path / "log", 2, torn)
    settings = settings_in(tmp_path, partitions=PARTITIONS)
    batches = job.run_available_now(settings, POLICY)
    rejected = read_rows(settings.runtime.tables, "telemetry_rejected")
    reasons = {row["value"]: row["reason"] for row in rejected if row["partition"] == 0}
    assert reasons == BAD_LINES
    assert [row["reason"] for row in rejected if row["partition"] != 0] == ["malformed"] * 4
    accepted = pa.table(DeltaTable(settings.runtime.tables / "telemetry").scan()).num_rows
    assert accepted == good
    assert sum(batch.rows for batch in batches if batch.query == "archive") == accepted + len(rejected)
    assert tables_of(settings) == expected


def add_file(log: Path, partition: int, content: bytes, *, suffix: str = ".jsonl.gz") -> None:
    """A file after the others, as no publisher would write it."""
    last = files_of(log, partition)[-1]
    number = int(last.name.split(".")[0]) + 1
    file = last.with_name(f"{number:020d}{suffix}")
    file.write_bytes(content)
    mtime = last.stat().st_mtime_ns + 60 * 10**9
    os.utime(file, ns=(mtime, mtime))


def test_as_json_sees_every_difference():
    assert as_json({"a": 1, "b": None}) == as_json({"b": None, "a": 1})
    assert as_json({"a": 1}) != as_json({"a": 1, "b": None})
    assert msgspec.json.decode(as_json({"a": [1]})) == {"a": [1]}


def test_a_spark_that_is_killed_while_it_starts_is_one_sentence(settings_in, tmp_path, monkeypatch):
    """It depends on the moment whether the connection is refused or broken; `test_many_kills` has met both."""
    for error in (
        ConnectionRefusedError(111, "Connection refused"),
        Py4JNetworkError("Answer from Java side is empty"),
    ):
        monkeypatch.setattr(SparkSession.Builder, "getOrCreate", Mock(side_effect=error))
        with pytest.raises(UserError, match=r"^Spark has ended: its JVM was killed"):
            spark_session(settings_in(tmp_path), "test")


class _Query(SimpleNamespace):
    """A query that ended; Spark can't be made to show at will a worker that comes too late."""

    def exception(self) -> str | None:
        return self.failure

    def stop(self) -> None:
        self.failure = None


class _Progressing(_Query):
    """A query that ends a batch at some looks, and counts how often all its progress is read."""

    reads = looks = 0

    @property
    def isActive(self) -> bool:  # noqa: N802  Spark's name
        self.looks += 1
        return self.looks < 30

    @property
    def lastProgress(self) -> object:  # noqa: N802  as above
        number = self.looks // 10
        return SimpleNamespace(
            batchId=number, timestamp=f"2026-11-28T10:00:0{number}.000Z",
            observedMetrics={batches.ROWS_READ: {"rows": 5}}, durationMs={"triggerExecution": 7},
        )  # fmt: skip

    @property
    def recentProgress(self) -> list[object]:  # noqa: N802  as above
        self.reads += 1
        return [self.lastProgress]


def test_what_spark_keeps_of_a_query_is_read_once_for_each_batch(tmp_path):
    query = _Progressing(name="operator", status={"isTriggerActive": True}, failure=None)
    with job.Running([lambda: query], tmp_path) as running:
        found = [batch.number for batch in running.batches(threading.Event())]
    assert found == list(range(query.looks // 10 + 1))
    assert query.reads == len(found)


def ended(failure: str | None) -> _Query:
    return _Query(
        name="operator", isActive=False, recentProgress=(), lastProgress=None, status={"isTriggerActive": False},
        failure=failure,
    )  # fmt: skip


DIED_EARLY = (
    "Lost task 0.0 in stage 1.0 (TID 1): java.io.EOFException\n"
    "\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)\n"
    "\tat org.apache.spark.api.python.PythonWorkerFactory.createWorker$1(PythonWorkerFactory.scala:188)"
)
"""As of `test_job_restart`."""


def test_a_query_whose_worker_came_too_late_is_started_again(tmp_path):
    queries = [ended("Python worker failed to connect back."), ended(None)]
    started = list(queries)
    with job.Running([lambda: queries.pop(0)], tmp_path) as running:
        assert list(running.batches(threading.Event())) == []
    assert len(started) - len(queries) == 2


@pytest.mark.parametrize(
    ("failure", "what"),
    [
        ("Python worker failed to connect back.", "a Python worker (it came too late)"),
        ("Python worker exited unexpectedly (crashed)", "a Python worker (killed, or short of memory)"),
        (DIED_EARLY, "a Python worker (killed, or short of memory)"),
        ("org.apache.kafka.common.errors.TimeoutException: Timed out", "Kafka (it does not answer)"),
    ],
)
def test_a_query_is_started_again_after_growing_pauses_and_not_for_ever(tmp_path, monkeypatch, failure, what):
    monkeypatch.setattr(job, "_PAUSE_SECONDS_MAX", 0.01)
    starts, said, waited = [], [], []

    def start() -> _Query:
        starts.append(1)
        return ended(failure)

    listener = job.JobListener(waited.append, lambda query, sentence: said.append((query, sentence)))
    with (
        pytest.raises(UserError, match=f"query failed: {failure[:20]}"),
        job.Running([start], tmp_path, listener=listener) as running,
    ):
        list(running.batches(threading.Event()))
    assert len(starts) == 10
    lost = f"the operator query lost {what} and is started again"
    assert said == [("operator", lost)] + [("operator", f"{lost} in 0.01 s")] * 8
    assert waited == []


def test_after_a_batch_the_first_restart_is_at_once_and_others_wait(tmp_path, monkeypatch):
    """As after the start of the run, and as often."""
    monkeypatch.setattr(job, "_PAUSE_SECONDS_MAX", 0.01)
    failure, said = "Python worker failed to connect back.", []
    first = _Progressing(name="operator", status={"isTriggerActive": True}, failure=failure, looks=29)
    starts = Mock(side_effect=[first, *(ended(failure) for _ in range(20))])
    listener = job.JobListener(on_restart=lambda _, sentence: said.append(sentence))
    with pytest.raises(UserError), job.Running([starts], tmp_path, listener=listener) as running:
        list(running.batches(threading.Event()))
    assert [sentence.endswith("in 0.01 s") for sentence in said] == [False] + [True] * 8
    assert starts.call_count == 10


def java_error(sentence: str) -> Py4JJavaError:
    cause = Mock(_target_id="o1")
    cause.getCause.return_value = None
    cause.toString.return_value = sentence
    return Py4JJavaError("An error occurred while calling o1.start.\n", cause)


@pytest.mark.parametrize("refusal", [java_error("java.io.IOException: No space"), PySparkException("No space")])
def test_a_query_that_cannot_be_started_again_is_one_sentence(tmp_path, refusal):
    starts = Mock(side_effect=[ended("Python worker failed to connect back."), refusal])
    with (
        pytest.raises(UserError, match=r"^A query could not start: .*No space \(details are in "),
        job.Running([starts], tmp_path) as running,
    ):
        list(running.batches(threading.Event()))


RACE = "org.apache.spark.SparkException: Multiple streaming queries are concurrently using the checkpoint"


def test_a_run_that_holds_the_lease_goes_on_after_a_race(tmp_path):
    """The former one, which was stopped within a batch, may record it before it notices that it was replaced."""
    queries, said = [ended(RACE), ended(None)], []
    listener = job.JobListener(on_restart=lambda _, sentence: said.append(sentence))
    with job.Running([lambda: queries.pop(0)], tmp_path, listener=listener, confirm=lambda: True) as running:
        assert list(running.batches(threading.Event())) == []
    assert queries == []
    assert said == [
        "the operator query lost a batch to the former run (it noticed late that it was replaced) and is started again"
    ]


def test_a_run_that_was_replaced_or_has_no_lease_ends_after_a_race(tmp_path):
    def replaced() -> bool:
        raise LeaseLostError("Another run has taken over.")

    for confirm, sentence in ((replaced, "has taken over"), (lambda: False, "has found another run on the same")):
        with (
            pytest.raises(UserError, match=sentence),
            job.Running([lambda: ended(RACE)], tmp_path, confirm=confirm) as running,
        ):
            list(running.batches(threading.Event()))


@pytest.mark.spark
def test_a_batch_that_hangs_does_not_keep_the_run_from_its_end(spark, tmp_path, monkeypatch):
    begun, released, restarts = threading.Event(), threading.Event(), []
    monkeypatch.setattr(job, "_STOP_SECONDS_MAX", 0)
    monkeypatch.setattr(job, "_SWAP_SECONDS_MAX", 0)

    def hang(_batch, _number) -> None:
        begun.set()
        released.wait()

    def running(name: str) -> job.Running:
        query = spark.readStream.format("rate").load().writeStream.queryName(name).foreachBatch(hang)
        listener = job.JobListener(on_restart=lambda *said: restarts.append(said))
        return job.Running([query.start], tmp_path, listener=listener)

    def another_takes_over() -> None:
        assert begun.wait(100)
        raise LeaseLostError("Another run has taken over.")

    swapped, replaced, asked = running("swapped"), running("replaced"), running("asked")
    stopping = threading.Event()
    try:
        with pytest.raises(UserError, match="batch of the query swapped hangs"), swapped:
            assert begun.wait(100)
        begun.clear()
        with pytest.raises(LeaseLostError, match="taken over"), replaced:
            another_takes_over()
        begun.clear()
        with asked:
            assert begun.wait(100)
            stopping.set()
            assert list(asked.batches(stopping)) == []
        assert restarts == [
            (name, f"the batch of the {name} query did not end: the next start repeats it")
            for name in ("swapped", "replaced", "asked")
        ]
    finally:
        released.set()
    for [query] in (swapped._queries, replaced._queries, asked._queries):
        query.awaitTermination(100)
