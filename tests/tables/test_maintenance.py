"""Maintenance beside a job: no row changes, nothing is lost, and the job goes on as if nothing had been."""

import threading
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from typer.testing import CliRunner

from checkpoints.generation import claimed, verify
from checkpoints.manifest import OPERATOR, app_id
from schemas.arrow import in_epoch_ms, table_of
from schemas.tables import TABLES
from streaming.base.errors import UserError
from streaming.cli import main
from streaming.pipeline.sinks import TableSink
from streaming.serve.alerting.follow import Follower
from streaming.tables import ReadModel, maintenance
from streaming.tables.maintenance import Limits, maintain, maintained
from tests.support.basis import BASIS
from tests.support.story import Story, log
from tests.support.tables import append, archive, make_tables, read_rows, selected

HISTORY, STATES = "assignment_history", "queue_state"
DAY = 86_400_000


class Job:
    """Appends as the streaming job does, one batch after the other."""

    def __init__(self, root: Path) -> None:
        self.root, self.batch = root, 0
        with claimed(root / "checkpoints", root / "tables", BASIS) as generation:
            self.sink = TableSink(root / "tables", OPERATOR, generation)

    def append(self, table: str, rows: list[dict[str, object]]) -> None:
        self.sink.append_arrow(table_of(table, rows), table, batch_id=self.batch)
        begun = self.root / "checkpoints" / OPERATOR / "offsets"
        begun.mkdir(parents=True, exist_ok=True)
        (begun / str(self.batch)).write_text('v1\n{}\n{"telemetry":{"0":1}}')
        self.batch += 1

    def owners(self, time: int, **fields: object) -> None:
        """A batch of one row of each of five groups, the last group first."""
        rows = [change(time, group=f"g{n}", seq=time, **fields) for n in range(5, 0, -1)]
        self.append(HISTORY, rows)


def change(time: int, **fields: object) -> dict[str, object]:
    return {
        "cluster": "c", "group": "g", "time": time, "known_at": time, "seq": 1, "cause": "s|k|1", "topic": "T",
        "broker": "b", "queue_id": 0, "client_id": "A", "action": "ASSIGNED", "evidence": "ANSWER",
        "expected_owner": None, "rebalance_id": "", **fields,
    }  # fmt: skip


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def rows_of(tables: Path, table: str) -> list[str]:
    return sorted(map(repr, read_rows(tables, table)))


def files_of(root: Path, table: str) -> list[str]:
    return DeltaTable(root / "tables" / table).file_uris()


def test_the_folder_of_the_tables_may_have_spaces_and_quotes(tmp_path):
    job = Job(tmp_path / "o'tool's ü #1")
    for at in range(3):
        job.owners(at)
    before = rows_of(job.root / "tables", HISTORY)

    assert maintain(job.root / "tables", HISTORY, Limits()).merged == 3
    assert rows_of(job.root / "tables", HISTORY) == before


def test_small_files_are_merged_sorted_by_group_and_no_row_changes(job):
    for at in range(12):
        job.owners(at)
    before = rows_of(job.root / "tables", HISTORY)

    done = maintain(job.root / "tables", HISTORY, Limits())

    assert (done.files_before, done.files_after, done.merged, done.rows_dropped) == (12, 1, 12, 0)
    assert rows_of(job.root / "tables", HISTORY) == before
    found = pa.table(DeltaTable(job.root / "tables" / HISTORY).scan()).select(["group", "time"]).to_pylist()
    assert found == sorted(found, key=lambda row: (row["group"], row["time"]))
    again = maintain(job.root / "tables", HISTORY, Limits())
    assert (again.files_before, again.files_after, again.merged) == (1, 1, 0)


def test_large_files_are_not_merged_and_merged_ones_are_in_order_of_time(job, monkeypatch):
    monkeypatch.setattr(maintenance, "FILE_ROWS", 40)
    for at in range(30):
        job.owners(at)

    maintain(job.root / "tables", HISTORY, Limits())
    large = set(files_of(job.root, HISTORY))
    spans = in_epoch_ms(pa.table(DeltaTable(job.root / "tables" / HISTORY).get_add_actions(flatten=True))).to_pylist()
    assert sorted((one["min.time"], one["max.time"]) for one in spans) == [(0, 7), (8, 15), (16, 23), (24, 29)]
    for at in range(30, 36):  # as many rows as the last one, which was not full
        job.owners(at)
    maintain(job.root / "tables", HISTORY, Limits())
    assert len(large - set(files_of(job.root, HISTORY))) == 1
    assert len(files_of(job.root, HISTORY)) == 5


def test_a_file_is_rewritten_only_when_it_at_least_doubles(job):
    most, oldest = 0, set()
    for at in range(32):
        job.owners(at)
        if at % 2:
            maintain(job.root / "tables", HISTORY, Limits())
            files = maintenance.files_of(HISTORY, DeltaTable(job.root / "tables" / HISTORY))
            most, oldest = max(most, len(files)), oldest | {min(files, key=lambda file: file.begins).path}

    assert most <= 5  # one of each power of two
    assert len(oldest) <= 5  # merged in each of the 16 rounds it would have 16 names


def test_the_job_s_next_append_and_one_that_is_done_again_work_as_before(job):
    for at in range(6):
        job.owners(at)
    maintain(job.root / "tables", HISTORY, Limits(replaced_ms=0))
    before = rows_of(job.root / "tables", HISTORY)

    job.batch -= 1
    job.owners(5)  # done again after a crash
    assert rows_of(job.root / "tables", HISTORY) == before
    job.owners(6)
    assert len(rows_of(job.root / "tables", HISTORY)) == len(before) + 5

    manifest = verify(job.root / "checkpoints", job.root / "tables")
    there = DeltaTable(job.root / "tables" / HISTORY)
    assert there.transaction_version(app_id(OPERATOR, HISTORY, manifest.generation)) == 6
    with claimed(job.root / "checkpoints", job.root / "tables", BASIS) as generation:
        assert generation == manifest.generation


def test_beside_a_job_that_appends_nothing_is_lost_or_there_twice(job):
    over = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while not over.is_set():
                job.owners(job.batch)
        except BaseException as error:  # noqa: BLE001  the test says it
            failed.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    with ReadModel(job.root / "tables") as model:
        for _ in range(6):
            maintain(job.root / "tables", HISTORY, Limits())
            model.refresh()
            [(count, times)] = [tuple(r.values()) for r in model.rows(
                f"SELECT count(*) AS n, count(DISTINCT h.time) AS t FROM {HISTORY} h")]  # fmt: skip
            assert count == 5 * times
            time.sleep(0.1)
    over.set()
    worker.join()
    assert failed == []
    found = [row["time"] for row in read_rows(job.root / "tables", HISTORY)]
    assert sorted(found) == sorted(n for n in range(job.batch) for _ in range(5))


def test_whoever_reads_an_older_version_reads_on(job):
    for at in range(10):
        job.owners(at)
    with ReadModel(job.root / "tables") as model:
        before = selected(model, "current_owners")
        done = maintain(job.root / "tables", HISTORY, Limits())

        assert (done.merged, done.removed) == (10, 0)
        assert selected(model, "current_owners") == before


def test_what_nobody_needs_any_more_is_removed_from_disk(job):
    for at in range(10):
        job.owners(at)
    maintain(job.root / "tables", HISTORY, Limits())
    assert len(list((job.root / "tables" / HISTORY).glob("*.parquet"))) == 11

    assert maintain(job.root / "tables", HISTORY, Limits(replaced_ms=0)).removed == 10
    assert len(list((job.root / "tables" / HISTORY).glob("*.parquet"))) == 1


def test_who_follows_the_commits_is_told_of_appends_only(job):
    follower = Follower(job.root / "tables" / HISTORY, ["time"])
    job.owners(1)
    job.owners(2)
    appended = follower.last_append()
    maintain(job.root / "tables", HISTORY, Limits())
    assert follower.last_append() == appended
    job.owners(3)

    assert [in_epoch_ms(commit.rows).column("time").to_pylist()[0] for commit in follower.new()] == [1, 2, 3]


def test_two_that_rewrite_the_same_files_do_not_double_them(job):
    for at in range(10):
        job.owners(at)
    before = rows_of(job.root / "tables", HISTORY)
    tables = job.root / "tables"
    with maintained(tables), pytest.raises(UserError, match="Another `rebalance-watch maintain`"), maintained(tables):
        pass
    stale = DeltaTable(tables / HISTORY)
    with maintenance._Rewriter(stale, tables, HISTORY, dry_run=False) as rewriter:
        maintain(tables, HISTORY, Limits())
        with pytest.raises(UserError, match="rewritten by another process"):
            rewriter.merge()
    assert rows_of(job.root / "tables", HISTORY) == before


def test_rows_that_are_too_old_go_but_not_what_still_holds(job):
    now = 100 * DAY
    job.append(HISTORY, [change(DAY, queue_id=0, client_id="old", seq=1), change(DAY, queue_id=1, seq=2)])
    job.append(HISTORY, [change(2 * DAY, queue_id=0, client_id="since then", seq=3)])
    job.append(HISTORY, [change(99 * DAY, queue_id=1, client_id="new", seq=4)])
    with ReadModel(job.root / "tables") as model:
        before = selected(model, "current_owners")

    done = maintain(job.root / "tables", HISTORY, Limits(rows_since=now - 30 * DAY))

    assert done.rows_dropped == 1
    with ReadModel(job.root / "tables") as model:
        assert selected(model, "current_owners") == before
        assert [row["client_id"] for row in selected(model, "ownership_intervals", "g") if row["queue_id"] == 0] == [
            "since then"
        ]
    assert maintain(job.root / "tables", HISTORY, Limits(rows_since=now - 30 * DAY)).rows_dropped == 0
    job.owners(now)


def test_an_old_incident_goes_as_a_whole_and_only_once_it_is_over(tmp_path):
    story = Story()
    for name, end in (("over", 20), ("open", None), ("over since", 90 * DAY)):
        story.incident(10, name, "OPENED", opened=10)
        story.incident(15, name, "ESCALATED", opened=10)
        if end is not None:
            story.incident(end, name, "RESOLVED", opened=10)
    for at in (9, 10, 99 * DAY):
        story.queue(at)
    append(make_tables(tmp_path), story.rows)

    dropped = {table: maintain(tmp_path, table, Limits(rows_since=70 * DAY)).rows_dropped for table in TABLES}

    assert {table: count for table, count in dropped.items() if count} == {"anomalies": 3, STATES: 1}
    with ReadModel(tmp_path) as model:
        found = model.rows("SELECT i.incident_id, i.transitions FROM incidents i ORDER BY i.incident_id")
        assert [(row["incident_id"], row["transitions"]) for row in found] == [("open", 2), ("over since", 3)]


def test_telemetry_goes_by_the_day_without_being_read(tmp_path):
    archive(make_tables(tmp_path), log())
    rows = DeltaTable(tmp_path / "telemetry").to_pyarrow_table()
    times = in_epoch_ms(rows).column("time").to_pylist()
    day = max(times) // DAY * DAY
    for shift in (1, 2):
        dates = pa.array([(day // DAY) + shift] * len(rows), pa.int32()).view(pa.date32())
        shifted = rows.set_column(rows.schema.get_field_index("date"), rows.schema.field("date"), dates)
        write_deltalake(tmp_path / "telemetry", shifted, mode="append")

    done = maintain(tmp_path, "telemetry", Limits(rows_since=day + DAY + 5))

    too_old = sum(time // DAY * DAY <= day for time in times)
    assert (done.rows_dropped, done.files_after) == (too_old, 2)
    with ReadModel(tmp_path) as model:
        assert len(model.rows("SELECT DISTINCT t.date FROM telemetry t")) == 2


@pytest.fixture
def command(job, monkeypatch):
    for at in range(4):
        job.owners(at)
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(job.root))
    return lambda *arguments: CliRunner().invoke(main.app, ["maintain", *arguments])


def test_the_command_says_what_it_did(command, job):
    tried = command("--dry-run", "--table", HISTORY)
    assert "nothing was changed" in tried.output
    assert len(files_of(job.root, HISTORY)) == 4

    result = command()
    assert result.exit_code == 0
    line = next(line for line in result.output.splitlines() if line.startswith(HISTORY))
    assert line.split()[:6] == [HISTORY, "4", "1", "4", "0", "0"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--table", "nonsense"], "Unknown table nonsense"),
        (["--table", "alert_deliveries", "--older-than", "1d"], "are never dropped"),
        (["--keep", "5m"], "too short"),
        (["--older-than", "long"], "Invalid duration"),
    ],
)
def test_what_is_asked_wrongly_is_one_sentence(command, arguments, says):
    assert says in str(command(*arguments).exception)


MISHAPS = [
    duckdb.IOException("No space left\non a second line"),
    DeltaError("the log can't be read"),
    OSError(28, "No space left on device"),
    UserError(maintenance._MEANWHILE.format(HISTORY)),
]


@pytest.fixture
def sleep(monkeypatch):
    """Counts the pauses, and ends the command in the second."""
    pauses: list[float] = []

    def pause(seconds: float, _stopping: object) -> bool:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise StoppedError
        return False

    for module in ("maintain", "interruption"):
        monkeypatch.setattr(f"streaming.cli.{module}.pause", pause)
    return pauses


class StoppedError(Exception):
    """By the test."""


def fail_once(monkeypatch, mishap: Exception) -> None:
    left = [mishap]

    def fail(*given: object, **also: object) -> maintenance.Done:
        if left:
            raise left.pop()
        return maintain(*given, **also)

    monkeypatch.setattr(maintenance, "maintain", fail)


@pytest.mark.parametrize("mishap", MISHAPS, ids=lambda mishap: type(mishap).__name__)
def test_an_error_is_one_sentence_and_ends_only_a_single_run(command, job, monkeypatch, sleep, mishap):
    fail_once(monkeypatch, mishap)
    once = command("--table", HISTORY)
    assert type(once.exception) is UserError
    assert "\n" not in str(once.exception)

    fail_once(monkeypatch, mishap)
    again = command("--every", "10m", "--table", HISTORY)
    assert type(again.exception) is StoppedError
    assert sleep == [600] * 2
    assert again.stderr.count("error:") == 1
    assert f"{once.exception} Retrying in 10m." in again.stderr
    assert len(files_of(job.root, HISTORY)) == 1


def test_a_table_that_fails_does_not_keep_the_others_from_their_turn(command, job, sleep):
    torn = job.root / "tables" / "queue_progress" / "_delta_log" / f"{0:020}.json"  # its turn is the first
    torn.write_text("{")

    once = command()
    assert type(once.exception) is UserError
    assert str(once.exception).startswith("The Delta log of the table queue_progress in ")
    assert len(files_of(job.root, HISTORY)) == 1
    assert any(line.startswith(f"{HISTORY} ") for line in once.output.splitlines())

    job.owners(5)
    again = command("--every", "10m")
    assert again.stderr.count(f"{once.exception} Retrying in 10m.") == 2
    assert len(files_of(job.root, HISTORY)) == 2  # one file of one row a group does not pay yet


def test_another_that_works_on_the_tables_is_waited_for(command, job, sleep):
    with maintained(job.root / "tables"):
        result = command("--every", "10m")

    assert type(result.exception) is StoppedError
    assert result.stderr.count("Another `rebalance-watch maintain`") == 2


def test_without_tables_a_single_run_ends_and_a_repeated_one_waits(command, tmp_path, monkeypatch, sleep):
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(tmp_path / "nowhere"))
    assert "There are no tables" in str(command().exception)

    waits = command("--every", "10m")
    assert type(waits.exception) is StoppedError
    assert sleep == [1] * 2
    assert waits.stderr.count("waiting for the tables") == 1


@pytest.mark.spark
def test_spark_reads_what_was_merged_and_appends_to_it(spark, tmp_path):
    make_tables(tmp_path)
    for _ in range(3):
        archive(tmp_path, log())
    before = rows_of(tmp_path, "telemetry")
    assert maintain(tmp_path, "telemetry", Limits(replaced_ms=0)).merged

    read = spark.read.format("delta").load(str(tmp_path / "telemetry"))
    assert sorted(map(repr, in_epoch_ms(read.toArrow()).to_pylist())) == before
    read.limit(1).write.format("delta").mode("append").save(str(tmp_path / "telemetry"))
    assert DeltaTable(tmp_path / "telemetry").count() == len(before) + 1
