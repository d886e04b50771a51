"""A check of the tables that stops the job ends it and refuses its start; mended, it goes on, and has every row."""

import threading

import pytest
from typer.testing import CliRunner

from checkpoints import quality
from rebalance_model.observe.policy import Policy
from streaming.base.errors import UserError
from streaming.cli.main import app
from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from streaming.pipeline import job
from tests.pipeline.test_torn_checkpoint import PARTITIONS, check_equal
from tests.support.suites import own_suite
from tests.support.tables import append_rows
from tests.support.telemetry import START, telemetry
from tests.tables.test_maintenance import change

pytestmark = [pytest.mark.spark, pytest.mark.prove]

POLICY = Policy()
SECONDS_MAX = 300
WRONG = "SELECT h.group AS found FROM assignment_history h WHERE h.group = 'nobody'"
STOPPED = r"A check of the tables stops the job \(mine found: .*rebalance-watch rebuild`, then run .*quality --now`"


def command(*words):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output


def append(log, events):
    with FilePublisher(log, PARTITIONS, file_bytes_max=10**9, roll_seconds=1e9) as publisher:
        publish(publisher, events)


def run_until_stopped(settings, then):
    """Run the job; call a function after the archive's first batch, and end the job if nothing stops it."""
    stopping = threading.Event()
    timer = threading.Timer(SECONDS_MAX, stopping.set)
    timer.start()
    try:
        with job.running(settings, POLICY) as running:
            for batch in running.batches(stopping):
                if batch.query == "archive":
                    then()
    finally:
        timer.cancel()


def test_a_failed_check_ends_the_job_until_it_is_mended(spark, settings_in, tmp_path, monkeypatch):
    del spark  # the job takes the session that is there
    monkeypatch.setattr(quality, "_LOOK_SECONDS", 0.2)
    settings, events = settings_in(tmp_path, partitions=PARTITIONS), list(telemetry(6, 40))
    given = {"RUNTIME__ROOT": tmp_path, "SOURCE__KIND": "files", "SOURCE__PARTITIONS": PARTITIONS}
    given |= {"QUALITY__SUITES": own_suite(tmp_path / "suites", "mine", WRONG, stops_job=True)}
    for name, value in given.items():
        monkeypatch.setenv(f"REBALANCE_WATCH_{name}", str(value))
    append(settings.log_path, events[: len(events) * 2 // 3])

    def spoil_a_table():
        append_rows(settings.runtime.tables, "assignment_history", [change(START + 60_000, group="nobody")])
        command("quality", "--now", "--since", "10000d")

    with pytest.raises(UserError, match=STOPPED):
        run_until_stopped(settings, spoil_a_table)

    append(settings.log_path, events[len(events) * 2 // 3 :])
    with pytest.raises(UserError, match=STOPPED):
        job.run_available_now(settings, POLICY)

    command("rebuild")
    with pytest.raises(UserError, match=STOPPED):
        job.run_available_now(settings, POLICY)
    command("quality", "--now", "--since", "10000d")
    job.run_available_now(settings, POLICY)
    check_equal(settings, settings.log_path, is_rebuilt=True)
