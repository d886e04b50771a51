"""A hundred kills (SIGKILL) at random moments of the job over a recording: the tables are those of an undisturbed run.

By turns the whole job, its JVM and its Python workers, within batches and, one time in five, while it starts. The same
over a live stream, with every other process: `live.test_many_kills`. `KILLS=20` in the environment is a shorter run.
"""

import os
import random
import time
from collections import Counter

import pytest

from tests.live.commands import Command
from tests.support.capture import check_rows, job_settings, write_capture
from tests.support.job_processes import kill_jvm, kill_workers

pytestmark = [pytest.mark.spark, pytest.mark.prove, pytest.mark.timeout(7_200)]

PARTITIONS = 2
SECONDS = 400
KILLS = int(os.environ.get("KILLS", "104"))
WEIGHTS = {"workers": 12, "jvm": 5, "job": 5}
"""A start of the job takes 20 s; a query that loses its workers starts again within the job."""
FILE_BYTES = 20_000
"""A batch is one file: then the recording has more batches than a hundred kills leave time for."""


@pytest.mark.parametrize("seed", [1])
def test_rows_are_the_same_after_a_hundred_kills_over_a_recording(tmp_path, seed, record_property):
    choice, kills, began = random.Random(seed), Counter(), time.monotonic()
    write_capture(tmp_path / "log", PARTITIONS, file_bytes=FILE_BYTES)
    given = job_settings(tmp_path, PARTITIONS)
    with Command(tmp_path, given | {"SOURCE__FILES_PER_BATCH": 1}, "run", name="killed") as job:
        job.start()
        while kills.total() < KILLS:
            who = choice.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
            kill(job, who, choice)
            kills[who] += 1
            print(f"{time.monotonic() - began:.0f} s: {kills.total()} killed, the last one {who}", flush=True)
        minutes, lost = (time.monotonic() - began) / 60, job.said().count("is started again")
        assert "Traceback" not in job.said()
    with Command(tmp_path, given | {"SOURCE__FILES_PER_BATCH": 1_000}, "run", "--available-now", name="last") as last:
        assert last.start().ended(4 * SECONDS) == 0, last.said()
    batches = [line for line in last.said().splitlines() if "operator batch" in line]
    assert batches, "the recording has ended before the kills"
    rows = check_rows(tmp_path, PARTITIONS)
    record_property("killed", f"{dict(kills)} in {minutes:.0f} minutes, {lost} queries started again")
    record_property("rows, each once", rows)


def kill(job: Command, who: str, choice: random.Random) -> None:
    """Kill, at a random moment, and start again what does not start by itself."""
    if who == "workers" or choice.random() < 0.8:
        job.wait_for(" batch ", SECONDS)
    time.sleep(choice.uniform(0, 4))
    if who == "workers":
        kill_workers(job, SECONDS)
        return
    if who == "jvm" and kill_jvm(job):
        assert job.ended(SECONDS) == 1, job.said_now()
    job.kill()
    job.start()
