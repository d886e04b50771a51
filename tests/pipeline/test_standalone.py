"""The job on a real standalone Spark, whose executors and workers are killed: the rows are those of the plain loop."""

import json
import random
import re
import time
from collections import Counter

import pytest

from streaming.lab.servers import LOOPBACK, free_port
from streaming.pipeline.environment import pack
from tests.live.commands import Command
from tests.support.capture import check_rows, job_settings, write_capture
from tests.support.processes import left_open
from tests.support.standalone import ON_LOOPBACK, Standalone

pytestmark = [pytest.mark.spark, pytest.mark.timeout(2400)]

PARTITIONS = 2
SECONDS = 400
KILLS = 24
FINISHED = "the whole log is processed"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Standalone(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def job_on(cluster, root, **job):
    """A job on the cluster, over the log in the root; `job` are further settings of its section."""
    given = {"JOB__MASTER": cluster.url, "SPARK": json.dumps(ON_LOOPBACK)}
    given |= {f"JOB__{name.upper()}": value for name, value in job.items()}
    return Command(root, job_settings(root, PARTITIONS) | given, "run", "--available-now")


def batches(job):
    """Return how many batches of the operator have ended."""
    return len(re.findall(r"^operator batch \d+:", job.said(), re.MULTILINE))


def wait_for_batch(job):
    """Wait until one more batch of the operator has ended, or the job."""
    before, deadline = batches(job), time.monotonic() + SECONDS
    while batches(job) == before and FINISHED not in job.said_now():
        assert time.monotonic() < deadline, job.said()
        time.sleep(0.1)


@pytest.mark.prove
def test_executors_close_the_connections_of_their_tasks(cluster, tmp_path):
    write_capture(tmp_path / "log", PARTITIONS, file_bytes=500_000)
    with job_on(cluster, tmp_path) as job:
        job.start()
        job.wait_for("operator batch 4:", SECONDS)
        left = [left_open(executor) for executor in cluster.executors()]
        assert job.ended(SECONDS) == 0, job.said()
    assert left
    assert max(left) <= 1  # of a task that is ending


@pytest.mark.prove
def test_rows_are_the_same_when_an_executor_and_a_worker_are_killed(cluster, tmp_path):
    write_capture(tmp_path / "log", PARTITIONS, file_bytes=1_500_000)
    with job_on(cluster, tmp_path) as job:
        job.start()
        job.wait_for("operator batch 0:", SECONDS)
        cluster.kill_executor(job)
        wait_for_batch(job)
        cluster.kill_worker()
        assert job.ended(SECONDS) == 0, job.said()
    assert batches(job) > 3
    assert "Traceback" not in job.said()
    check_rows(tmp_path, PARTITIONS)


@pytest.mark.prove
@pytest.mark.parametrize("seed", [1])
def test_rows_are_the_same_after_many_kills_of_every_process(cluster, tmp_path, seed, record_property):
    """The executors have a bare Python, and their packages from `job pack`."""
    choice, kills = random.Random(seed), Counter()
    write_capture(tmp_path / "log", PARTITIONS, file_bytes=60_000)
    with job_on(cluster, tmp_path, environment=pack(tmp_path / "environment.tar.gz")) as job:
        job.start()
        job.wait_for("operator batch 0:", SECONDS)
        while kills.total() < KILLS and job.is_running:
            time.sleep(choice.uniform(0, 4))
            what = choice.choice(("executor", "executor", "worker", "driver"))
            if what == "executor":
                cluster.kill_executor(job)
            elif what == "worker":
                cluster.kill_worker(choice.randrange(len(cluster.workers)))
                cluster.add_worker()
            else:
                job.kill()
                job.start()
            kills[what] += 1
            wait_for_batch(job)
            print(f"\n{kills.total()}: {what}, batch {batches(job)}", flush=True)
        assert job.ended(SECONDS) == 0, job.said_now()
    lost = job.said().count("is started again")
    record_property("killed", f"{dict(kills)}; {batches(job)} batches of the operator, {lost} queries started again")
    assert kills.total() > KILLS // 2  # a quick machine has processed all before the last one
    assert "Traceback" not in job.said()
    check_rows(tmp_path, PARTITIONS)


def test_a_master_that_does_not_answer_is_one_sentence(tmp_path):
    write_capture(tmp_path / "log", PARTITIONS, file_bytes=10**9)
    given = {"JOB__MASTER": f"spark://{LOOPBACK}:{free_port()}"}
    with Command(tmp_path, job_settings(tmp_path, PARTITIONS) | given, "run", "--available-now") as job:
        job.start()
        assert job.ended(SECONDS) == 4, job.said()
    said = " ".join(job.said().split())
    assert "error: No Spark master answers at spark://" in said
    assert "Traceback" not in said
