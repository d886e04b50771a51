"""The complete path, as a user starts it: real consumers, the collector, Kafka, the job, the Delta tables.

Spark's tasks run in the job's process, or in executors of a standalone cluster with two workers. The short form is
`test_whole_path`: the same path through secured servers, and on to an alert.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import msgspec
import pytest

from streaming.base.settings import conf_file
from tests.live.job_tables import check_archive, incidents, owners, stuck
from tests.support.standalone import ON_LOOPBACK, Standalone

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.prove]

POLL_MS, STUCK_MS = 2_000, 8_000


@pytest.fixture
def environment(lab, settings_in, tmp_path):
    """Return settings with a topic and a root of its own, and frequent polls, so that the test takes no minutes."""
    settings_in(tmp_path)
    values = {
        "RUNTIME__ROOT": str(tmp_path),
        "SOURCE__KIND": "kafka",
        "SOURCE__BOOTSTRAP_SERVERS": lab.kafka_bootstrap,
        "SOURCE__TOPIC": f"end-to-end-{tmp_path.name}",
        "SOURCE__PARTITIONS": "2",
        "JOB__TRIGGER_SECONDS": "1",
        "COLLECTOR__NAME_SERVERS": msgspec.json.encode([lab.name_server]).decode(),
        "COLLECTOR__INTERVAL_MS": str(POLL_MS),
    }
    return os.environ | {f"REBALANCE_WATCH_{name}": value for name, value in values.items()}


@pytest.fixture
def policy(tmp_path):
    text = conf_file("policy.toml").read_text()
    path = tmp_path / "policy.toml"
    path.write_text(
        text.replace("poll_interval = 10_000", f"poll_interval = {POLL_MS}").replace(
            "stuck_after = 60_000", f"stuck_after = {STUCK_MS}"
        )
    )
    return path


@pytest.mark.parametrize("where", ["here", "executors"])
def test_a_poisoned_queue_opens_an_incident_and_its_cure_resolves_it(
    lab, lab_settings, watch, eventually, environment, policy, tmp_path, where
):
    orders = lab_settings.lab.groups["orders"]
    tables = tmp_path / "tables"
    subprocess.run([*command(), "topic", "create"], env=environment, check=True, capture_output=True, timeout=60)
    with ExitStack() as stack:
        if where == "executors":
            cluster = stack.enter_context(Standalone(tmp_path / "cluster"))
            environment["REBALANCE_WATCH_JOB__MASTER"] = cluster.url
            environment["REBALANCE_WATCH_SPARK"] = json.dumps(ON_LOOPBACK)
        collector = stack.enter_context(Running("collect", environment, tmp_path, "collect", "poll"))
        job = stack.enter_context(Running("run", environment, tmp_path, "run", "--policy", str(policy)))
        owned = eventually(lambda: owners(tables, orders) == watch.owners(orders.group, orders.topic), 180)
        assert owned
        eventually(lambda: not stuck(tables, orders), 90)
        try:
            poisoned = lab.fault("poison")
            [opened] = eventually(lambda: stuck(tables, orders, poisoned), 90)
        finally:
            lab.cure("poison")
        assert opened["opened_at"] >= poisoned.time
        eventually(lambda: not stuck(tables, orders, poisoned), 90)
        [resolved] = [
            one for one in incidents(tables, orders, poisoned.queue) if one["incident_id"] == opened["incident_id"]
        ]
        assert resolved["resolved_at"] > opened["opened_at"]
        assert where == "here" or len(cluster.executors()) == len(cluster.workers)
        assert job.ended_by_interrupt() == 0
        assert collector.ended_by_interrupt() == 0
    check_archive(tables)


def command() -> list[str]:
    return [sys.executable, "-m", "streaming.cli"]


class Running:
    """One of our commands while it runs; ended whatever happens."""

    def __init__(self, name, environment, folder, *arguments):
        self._log = folder / f"{name}.log"
        self._start = lambda out: subprocess.Popen(
            [*command(), *arguments], env=environment, stdout=out, stderr=subprocess.STDOUT
        )

    def __enter__(self):
        with self._log.open("wb") as out:
            self._process = self._start(out)
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def ended_by_interrupt(self):
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(timeout=90)
        assert "Traceback" not in self._log.read_text()
        return code
