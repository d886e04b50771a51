"""However the job is ended, its next start goes on from there: at last each row is in the tables once.

One log for all: each way to end the job leaves the next one something to do. That Ctrl-C, too, ends it cleanly is shown
by `rebuild.test_rebuild_job`, `live.unsecured.test_end_to_end` and `supervise.test_up`. The short form is
`live.test_whole_path`: there a job is killed within a batch, and the next one loses a worker.
"""

import os
import signal
from pathlib import Path

import pytest

from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.base.settings import conf_file
from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from tests.live.commands import Command
from tests.pipeline import dying_daemon
from tests.support.job_processes import kill_busy_worker, kill_jvm
from tests.support.plain import as_json, derived_rows
from tests.support.tables import read_rows
from tests.support.telemetry import telemetry

pytestmark = [pytest.mark.spark, pytest.mark.prove]

PARTITIONS = 2
SECONDS = 400
WORKER_KILLS = 2
"""Fewer than the starts that a query has without ending a batch in between."""
KILLED_WITHIN_BATCH = ("-m", "tests.pipeline.killed_within_batch")


def append(log: Path, events: list[object]) -> None:
    with FilePublisher(log, PARTITIONS, file_bytes_max=60_000, roll_seconds=1e9) as publisher:
        publish(publisher, events)


def test_each_row_is_there_once_whatever_ended_the_job(settings_in, tmp_path):
    settings = settings_in(tmp_path, partitions=PARTITIONS)
    events = list(telemetry(10, 90))
    given = {"RUNTIME__ROOT": tmp_path, "SOURCE__KIND": "files", "SOURCE__PARTITIONS": PARTITIONS}
    given |= {"SOURCE__FILES_PER_BATCH": 4, "JOB__TRIGGER_SECONDS": 0.2, "JOB__ARCHIVE_TRIGGER_SECONDS": 0.2}
    third = len(events) // 3
    append(settings.log_path, events[:third])
    with Command(tmp_path, given, "run") as job:
        a_service_manager_ends_all_processes(job)
        append(settings.log_path, events[third : 2 * third])
        with Command(tmp_path, given, "run", "--available-now", program=KILLED_WITHIN_BATCH) as dying:
            assert dying.start().ended(SECONDS) == -signal.SIGKILL, dying.said()
        another_policy_is_refused(job, tmp_path)
        its_jvm_is_killed(job)
        append(settings.log_path, events[2 * third :])  # a quick machine has processed all before the kill
        its_workers_are_killed(job)
    assert "Traceback" not in job.said()

    tables = settings.runtime.tables
    expected = derived_rows(settings.log_path, PARTITIONS, Policy())
    assert {table: sorted(map(as_json, read_rows(tables, table))) for table in DERIVED} == expected
    places = [(row["partition"], row["offset"]) for row in read_rows(tables, "telemetry")]
    ticks = sum(event.BROADCAST for event in events)
    assert len(places) == len(set(places)) == len(events) + ticks * (PARTITIONS - 1)


def test_a_worker_that_is_killed_while_it_starts_ends_no_query(settings_in, tmp_path, monkeypatch):
    settings = settings_in(tmp_path, partitions=PARTITIONS)
    append(settings.log_path, list(telemetry(3, 10)))
    monkeypatch.setenv(dying_daemon.FOLDER, str(tmp_path))
    given = {"RUNTIME__ROOT": tmp_path, "SOURCE__KIND": "files", "SOURCE__PARTITIONS": PARTITIONS}
    given["SPARK"] = f'{{"spark.python.daemon.module": "{dying_daemon.__name__}"}}'
    with Command(tmp_path, given, "run", "--available-now") as job:
        assert job.start().ended(SECONDS) == 0, job.said()
    assert sorted(file.name for file in tmp_path.glob("died-*")) == ["died-after", "died-before"]
    assert "query lost a Python worker (killed, or short of memory) and is started again" in job.said()
    expected = derived_rows(settings.log_path, PARTITIONS, Policy())
    found = {table: sorted(map(as_json, read_rows(settings.runtime.tables, table))) for table in DERIVED}
    assert found == {table: expected.get(table, []) for table in DERIVED}


def a_service_manager_ends_all_processes(job: Command) -> None:
    job.start().wait_for("operator batch 0:", SECONDS)
    os.killpg(job.pid, signal.SIGTERM)
    assert job.ended(SECONDS) == 0, job.said_now()
    assert job.said_now().endswith("stopped\n")


def another_policy_is_refused(job: Command, folder: Path) -> None:
    other = folder / "other.toml"
    other.write_text(conf_file("policy.toml").read_text().replace("stuck_after = 60_000", "stuck_after = 50_000"))
    assert job.start("--policy", str(other)).ended(SECONDS) == 1, job.said_now()
    assert "was started under another policy: finish it with" in job.said_now().replace("\n", " ")


def its_jvm_is_killed(job: Command) -> None:
    job.start().wait_for("operator batch", SECONDS)
    assert kill_jvm(job)
    assert job.ended(SECONDS) == 1, job.said_now()
    assert "error: Spark has ended: its JVM was killed" in job.said_now()


def its_workers_are_killed(job: Command) -> None:
    job.start("--available-now").wait_for("operator batch", SECONDS)
    for _ in range(WORKER_KILLS):
        kill_busy_worker(job)
    assert job.ended(SECONDS) == 0, job.said_now()
    assert "the whole log is processed" in job.said_now()
