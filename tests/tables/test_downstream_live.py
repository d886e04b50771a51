"""Another team's streams beside a job that runs and writes all the time, through everything that happens to its tables.

The job, `maintain` and `rebuild` are the commands, as processes; the streams do what schemas/BUILDING.md says, and know
nothing else. `test_downstream_stream` is the short form: its rows are few and numbered, and no job runs.
"""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import groupby, takewhile
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException

from checkpoints.manifest import ARCHIVE, OPERATOR, SWAP_MARK
from checkpoints.position import position_of_query
from rebalance_model.observe.events import AnyEvent, Tick
from rebalance_model.observe.policy import Policy
from schemas.arrow import in_epoch_ms
from streaming.base.times import DAY_MS, now_ms
from streaming.log.files import FilePublisher, files_of, offset_of, parse_path
from streaming.log.rows import publish
from tests.live.commands import Command
from tests.support.faketime import FakeClock
from tests.support.plain import as_json, derived_rows
from tests.support.tables import has_rows, read_rows
from tests.support.telemetry import live_telemetry
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.prove]

PARTITIONS = 2
RATE = 6
"""Events a second of the telemetry's own time, of ten groups."""
SPEED = 2
"""How much faster than real time the log grows, so that more groups change and queues get stuck meanwhile."""
MINUTE_MS = 60_000
SECONDS = 900
SERIES, HISTORY, INCIDENTS = "queue_progress", "assignment_history", "anomalies"
CHANGING = HISTORY, INCIDENTS
"""The tables of whose changes there is a stream."""
HANGS = "no row is lost or doubled, and the next start repeats the batch"


class Log(threading.Thread):
    """A file log with five minutes of ten days ago, which grows with telemetry of the last hours until it is ended."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder, self._over = folder, threading.Event()
        self._publisher = FilePublisher(folder, PARTITIONS, roll_seconds=1)
        past = now_ms() - 10 * DAY_MS
        of_past = takewhile(lambda event: event.time < past + 5 * MINUTE_MS, live_telemetry(RATE, start=past))
        publish(self._publisher, list(of_past))

    def run(self) -> None:
        start, began = now_ms() - 180 * MINUTE_MS, time.monotonic()
        time_now, last = start, None
        with self._publisher:
            for event in live_telemetry(RATE, start=start, seed=2):
                while event.time > time_now and not self._over.wait(0.5):
                    time_now = start + round((time.monotonic() - began) * 1_000 * SPEED)
                if self._over.is_set():
                    break
                publish(self._publisher, [event])
                last = event if isinstance(event, Tick) else last
            publish(self._publisher, [_last_of(last)])

    def end(self) -> dict[int, int]:
        """End the telemetry; return the position after it."""
        self._over.set()
        self.join()
        last = {number: files_of(self._folder, number)[-1] for number in range(PARTITIONS)}
        return {number: offset_of(parse_path(file.as_posix())[1] + 1, 0) for number, file in last.items()}


def _last_of(tick: AnyEvent) -> AnyEvent:
    """The tick with which a collector ends, after its last one."""
    values = {name: getattr(tick, name) for name in tick.__struct_fields__}
    return Tick(**values | {"time": tick.time + 1_000, "seq": tick.seq + 1, "end": True})


class Stream:
    """A stream into a folder of Parquet files, which runs until it is ended."""

    def __init__(self, spark, table: Path, folder: Path, *, at_once=False, **options: object) -> None:
        self.table, self._spark = table, spark
        self._copy, self._checkpoint = folder / "rows", folder / "checkpoint"
        self._reader = spark.readStream.format("delta").options(**options)
        self.query = None
        self.start(at_once=at_once)
        if at_once:
            self.query.awaitTermination()

    def start(self, *, at_once=False) -> None:
        """Start it from its checkpoint; at once: it ends by itself when it has what is there."""
        writer = self._reader.load(str(self.table)).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self._checkpoint)).option("path", str(self._copy))
        trigger = {"availableNow": True} if at_once else {"processingTime": "3 seconds"}
        self.query = writer.trigger(**trigger).start()

    def catch_up(self) -> None:
        """Wait until it has what the table has now."""
        version = version_of_last_rows(self.table)
        until(lambda: self._position() > version, SECONDS, lambda: (self.table, version, self.query.lastProgress))

    def _position(self) -> int:
        if (error := self.query.exception()) is not None:
            raise error
        progress = self.query.lastProgress
        return json.loads(progress.sources[0].endOffset)["reservoirVersion"] if progress else -1

    def error(self) -> str:
        """Wait until it ends by an error; return what it says."""
        with pytest.raises(StreamingQueryException) as raised:
            self.query.awaitTermination()
        return str(raised.value)

    def end(self) -> None:
        self.query.processAllAvailable()
        self.query.stop()

    def rows(self) -> list[dict[str, object]]:
        """All that has come, in no order."""
        return in_epoch_ms(self._spark.read.parquet(str(self._copy)).toArrow()).to_pylist()


class Polled:
    """The change feed without Spark, read each time from where the last time ended."""

    def __init__(self, table: Path) -> None:
        self._table, self._last = table, -1
        self.changes: list[dict[str, object]] = []

    def read(self) -> None:
        delta = DeltaTable(self._table)
        if delta.version() > self._last:
            self.changes += in_epoch_ms(pa.table(delta.load_cdf(starting_version=max(self._last + 1, 1)))).to_pylist()
            self._last = delta.version()


def version_of_last_rows(table: Path) -> int:
    """The newest version that changed rows."""
    for commit in sorted((table / "_delta_log").glob("*[0-9].json"), reverse=True):
        if '"dataChange":true' in commit.read_text():
            return int(commit.stem)
    raise AssertionError(table)


def applied(changes: list[dict[str, object]]) -> Counter[str]:
    """Return what is left of changes that are applied version by version, deletes first."""
    rows: Counter[str] = Counter()
    for _, of_version in groupby(sorted(changes, key=_version), _version):
        of_kind: dict[str, list[str]] = {"delete": [], "insert": []}
        for change in of_version:
            of_kind[str(change["_change_type"])].append(as_row(change))
        rows.subtract(of_kind["delete"])
        assert min(rows.values(), default=0) >= 0, "a row is deleted that was not there"
        rows.update(of_kind["insert"])
    return +rows


def _version(change: dict[str, object]) -> int:
    version = change["_commit_version"]
    assert isinstance(version, int)
    return version


def as_row(change: dict[str, object]) -> str:
    return as_json({name: value for name, value in change.items() if not name.startswith("_")})


def counted(rows: list[dict[str, object]]) -> Counter[str]:
    return Counter(map(as_json, rows))


def swaps(table: Path) -> list[int]:
    """The versions whose commit is a rebuild, as the table's history has it."""
    history = DeltaTable(table).history()
    return [one["version"] for one in history if str(one.get("userMetadata")).startswith("rebalance-watch rebuild")]


def command(settings: dict[str, object], *arguments: str, clock: FakeClock | None = None) -> None:
    """Run one of our commands to its end, by a clock that may be wrong."""
    environment = Command(Path(), settings)._environment | (clock.environment | {"NO_FAKE_STAT": "1"} if clock else {})
    ran = subprocess.run(
        [sys.executable, "-m", "streaming.cli", *arguments],
        env=environment, capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


def stop(job: Command) -> None:
    """Stop it as by Ctrl-C; on a busy machine it may not wait for its batch, which the next start repeats."""
    assert job.interrupt() == 0 or HANGS in job.said_now(), job.said_now()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path / "log")
    made.start()
    yield made
    made.end()


class Downstream:
    """The programs of another team: streams of appends and of changes, and a program without Spark."""

    def __init__(self, spark, tables: Path, folder: Path) -> None:
        self._spark, self._tables, self._folder = spark, tables, folder
        self.series, self.history = self.appends(SERIES), self.appends(HISTORY)
        self.late, self.too_late = (self.appends(SERIES, name, at_once=True) for name in ("late", "too-late"))
        self.changes = {name: self._stream(f"{name}-changes", name, readChangeFeed="true") for name in CHANGING}
        self.polled = Polled(tables / INCIDENTS)

    def appends(self, table: str, name: str = "appends", *, at_once=False) -> Stream:
        """Start a stream of what is appended, with a new checkpoint."""
        return self._stream(f"{table}-{name}", table, at_once=at_once, ignoreDeletes="true")

    def _stream(self, name: str, table: str, **options: object) -> Stream:
        return Stream(self._spark, self._tables / table, self._folder / name, **options)

    def catch_up(self, job: Command) -> None:
        """Wait until the job has appended more, and all of them have what is there."""
        before = version_of_last_rows(self._tables / SERIES)
        until(lambda: self._has_more(job, before), SECONDS, job.said_now)
        for one in (self.series, self.history, *self.changes.values()):
            one.catch_up()
        self.polled.read()

    def _has_more(self, job: Command, version: int) -> bool:
        """Return whether the job has appended more since a version of the series; it must run."""
        assert job.is_running, job.said_now()
        return version_of_last_rows(self._tables / SERIES) > version

    def after_a_swap(self, name: str) -> Stream:
        """Check that the stream of a replaced table's appends ends, and start one again; return the ended one."""
        ended = self.history
        assert "DELTA_SOURCE_TABLE_IGNORE_CHANGES" in ended.error()
        assert SWAP_MARK in DeltaTable(self._tables / HISTORY).metadata().configuration
        self.history = self.appends(HISTORY, name)
        return ended

    def end(self) -> None:
        """End what runs, when it has all."""
        for one in (self.series, self.history, *self.changes.values()):
            one.end()
        self.polled.read()


def test_streams_beside_a_running_job_get_each_row_once(settings_in, tmp_path, spark, log):
    settings = settings_in(tmp_path, partitions=PARTITIONS)
    given = {"RUNTIME__ROOT": tmp_path, "SOURCE__KIND": "files", "SOURCE__PARTITIONS": PARTITIONS}
    given |= {"JOB__TRIGGER_SECONDS": 1, "JOB__ARCHIVE_TRIGGER_SECONDS": 1}
    tables, checkpoints = settings.runtime.tables, settings.runtime.checkpoints
    with Command(tmp_path, given, "run") as job:
        job.start().wait_for("operator batch", SECONDS)
        until(lambda: has_rows(tables, {SERIES: 500, HISTORY: 50, INCIDENTS: 5, "telemetry": 2_000}), SECONDS)
        others = Downstream(spark, tables, tmp_path / "streams")
        others.catch_up(job)

        command(given, "maintain", "--older-than", "5d")
        others.late.start(at_once=True)  # what it has not read was merged or dropped, and is still there
        others.late.query.awaitTermination()
        others.catch_up(job)
        stop(job)  # by that clock, what it is writing would be two hours old, and not in the table
        command(given, "maintain", "--keep", "1h", clock=FakeClock(tmp_path / "clock", 2 * 3_600))
        job.start().wait_for("operator batch", SECONDS)
        others.too_late.start(at_once=True)
        assert "FILE_NOT_EXIST" in others.too_late.error()
        others.catch_up(job)

        command(given, "rebuild")
        before_rebuild = others.after_a_swap("again")
        others.catch_up(job)

        command(given, "maintain")
        stop(job)
        command(given, "rebuild", "--undo")
        job.start().wait_for("operator batch", SECONDS)  # it reads the log again from the rebuild on
        before_undo = others.after_a_swap("undone")
        others.catch_up(job)

        end = log.end()
        until(lambda: all(position_of_query(checkpoints / one) == end for one in (OPERATOR, ARCHIVE)), SECONDS)
        stop(job)  # in no batch, so all is written
    others.end()

    expected = derived_rows(settings.log_path, PARTITIONS, Policy())
    assert counted(others.series.rows()) == Counter(expected[SERIES])
    assert counted(others.late.rows()) <= Counter(expected[SERIES])
    assert counted(before_rebuild.rows()) <= Counter(expected[HISTORY])  # equal: no queue moved after the rebuild
    assert set(counted(before_undo.rows()).values()) == {1}  # numbered by the rebuild, in the order of time
    assert counted(others.history.rows()) == counted(read_rows(tables, HISTORY))
    for table, changes in (
        *((name, one.rows()) for name, one in others.changes.items()),
        (INCIDENTS, others.polled.changes),
    ):
        assert applied(changes) == counted(read_rows(tables, table))
        rebuilt, undone = sorted(swaps(tables / table))
        inserted = [
            one for one in changes if one["_change_type"] == "insert" and _version(one) not in {rebuilt, undone}
        ]
        times = Counter((as_row(one), _version(one) > undone) for one in inserted)  # what the undo took is made again
        assert set(times.values()) == {1}
