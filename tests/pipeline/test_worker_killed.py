"""A Python worker of a running job is killed: its query is started again, and the rows are the same."""

import os
import re
import signal
import time
from contextlib import suppress

import pytest

from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from tests.live.commands import Command
from tests.support.plain import as_json, derived_rows
from tests.support.processes import command_of, descendants, parents
from tests.support.tables import read_rows
from tests.support.telemetry import telemetry

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

PARTITIONS = 2
KILLS = 2
"""Fewer than the starts that a query has without ending a batch in between."""
SECONDS = 400


def workers(pid):
    """The Python workers below a process: forked by a daemon, which has the same command line."""
    parent_of = parents()
    daemons = {one for one in descendants(pid) if b"pyspark.daemon" in command_of(one)}
    return [one for one in daemons if parent_of.get(one) in daemons]


def lost(job):
    """The names of the queries that were started again for a killed worker."""
    return re.findall(r"the (\w+) query lost a Python worker", job.said())


def wait_until(holds):
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def kill_busy_worker(job):
    """Kill the workers until a query loses one: one that waits for work is replaced without notice."""
    before = lost(job)
    while lost(job) == before:
        wait_until(lambda: workers(job.pid) or lost(job) != before)
        for worker in workers(job.pid):
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        time.sleep(0.5)
    query = lost(job)[-1]
    ended = job.said().count(f"{query} batch")
    wait_until(lambda: job.said().count(f"{query} batch") > ended)


def test_rows_are_the_same_when_workers_are_killed(settings_in, tmp_path):
    settings = settings_in(tmp_path, partitions=PARTITIONS)
    with FilePublisher(settings.log_path, PARTITIONS, file_bytes_max=60_000, roll_seconds=1e9) as publisher:
        publish(publisher, list(telemetry(10, 60)))
    given = {"RUNTIME__ROOT": tmp_path, "SOURCE__KIND": "files", "SOURCE__PARTITIONS": PARTITIONS}
    given |= {"SOURCE__FILES_PER_BATCH": 4, "JOB__TRIGGER_SECONDS": 0.2, "JOB__ARCHIVE_TRIGGER_SECONDS": 0.2}
    with Command(tmp_path, given, "run", "--available-now") as job:
        job.start()
        job.wait_for("operator batch 0:", SECONDS)
        for _ in range(KILLS):
            kill_busy_worker(job)
        assert job.ended(SECONDS) == 0, job.said()
    assert "Traceback" not in job.said()
    expected = derived_rows(settings.log_path, PARTITIONS, Policy())
    tables = settings.runtime.tables
    assert {table: sorted(map(as_json, read_rows(tables, table))) for table in DERIVED} == expected
    places = [(row["partition"], row["offset"]) for row in read_rows(tables, "telemetry")]
    assert len(places) == len(set(places))
