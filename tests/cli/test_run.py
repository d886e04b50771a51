"""`rebalance-watch run` beside `rebalance-watch rebuild`, with queries that only wait."""

import os
import signal
import threading
import time
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from checkpoints.lease import Lease
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import STATE_VERSION
from streaming.cli.main import app
from streaming.pipeline import batches, job
from streaming.pipeline.rebuild.folder import Folder, Ready
from tests.support.otlp_receiver import otlp_receiver

READY = Ready("1", {}, [], Policy(), STATE_VERSION)


class Query(SimpleNamespace):
    """A query that waits for rows."""

    isActive, status, lastProgress = True, {"isTriggerActive": False}, None  # noqa: N815  Spark's names

    def exception(self):
        return None

    def stop(self):
        self.on_stop()


class Job:
    """A job without Spark, for which a rebuild is announced once it runs, and which gets Ctrl-C once it runs again."""

    def __init__(self, root, monkeypatch):
        (root / "log").mkdir()
        self.root, self.folder, self.lives = root, Folder(root / "checkpoints"), 0
        self.on_stop = self.on_start = lambda: None
        monkeypatch.setenv("REBALANCE_WATCH_SOURCE__KIND", "files")
        monkeypatch.setattr(job, "spark_session", Mock())
        monkeypatch.setattr(job, "check_source", lambda _: self.on_start())
        monkeypatch.setattr(job, "start_operator", self._start)
        monkeypatch.setattr(job, "start_archive", lambda *_, **__: Query(name="archive", on_stop=lambda: None))

    def run(self):
        return CliRunner().invoke(app, ["--root", str(self.root), "run"])

    def _start(self, *_, **__):
        self.lives += 1
        if self.lives == 1:
            self.folder.root.mkdir(parents=True)
            self.folder.announce(READY)
        else:
            os.kill(os.getpid(), signal.SIGINT)
        return Query(name="operator", on_stop=self.on_stop)


@pytest.fixture
def running(tmp_path, monkeypatch):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield Job(tmp_path, monkeypatch)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_rebuild_that_claims_the_root_first_does_not_end_the_job(running):
    """It looks five times a second, while the job first asks Kafka whether it has the rows."""
    claimed = threading.Event()

    def swap():
        with Lease.acquire(running.root / "checkpoints"):
            running.folder.withdraw()
            claimed.set()
            time.sleep(0.3)

    def swap_first():
        if running.lives:
            threading.Thread(target=swap).start()
            assert claimed.wait(10)

    running.on_start = swap_first
    ended = running.run()
    assert (ended.exit_code, ended.exception) == (0, None), ended.output
    assert running.lives == 2
    assert "another run works on the same root" in ended.output
    assert ended.output.endswith("stopped\n")


def test_a_rebuild_withdrawn_while_the_queries_end_does_not_end_the_job(running):
    running.on_stop = running.folder.withdraw
    ended = running.run()
    assert ended.exit_code == 0, ended.output
    assert running.lives == 2
    assert ended.output.endswith("stopped\n")


class Ended(Query):
    """A query that has ended after one batch."""

    isActive = False  # noqa: N815  Spark's name
    lastProgress = SimpleNamespace(  # noqa: N815  as above
        batchId=0, timestamp="2026-11-28T10:00:00.000Z", observedMetrics={batches.ROWS_READ: {"rows": 5}},
        durationMs={"triggerExecution": 7},
    )  # fmt: skip
    recentProgress = (lastProgress,)  # noqa: N815  as above


def test_batches_are_pushed_as_traces(tmp_path, monkeypatch, running):
    query = Ended(name="operator", on_stop=lambda: None)
    monkeypatch.setattr(job, "start_operator", lambda *_, **__: query)
    monkeypatch.setattr(job, "start_archive", lambda *_, **__: Ended(name="archive", on_stop=lambda: None))
    with otlp_receiver() as receiver:
        monkeypatch.setenv("REBALANCE_WATCH_OTLP__ENDPOINT", receiver.endpoint)
        ended = CliRunner().invoke(app, ["--root", str(tmp_path), "run", "--available-now"])
        assert ended.exit_code == 0, ended.output
        assert {span.name: span.attributes["rows"] for span in receiver.spans()} == {
            "operator batch": 5, "archive batch": 5,
        }  # fmt: skip
        [instance] = {span.resource["service.instance.id"] for span in receiver.spans()}
        assert instance.endswith("/run")
        assert {name for name, _ in receiver.points()} >= {"process_resident_memory_bytes"}
