"""The clock of the collector's host is wrong when the collector starts, and is set while it polls (libfaketime)."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.events import Answer, ClockStep, Tick
from rebalance_model.observe.events.decoding import decode
from streaming.log.files import files_of
from tests.support.counted_cluster import CountedCluster
from tests.support.faketime import FakeClock
from tests.support.waiting import until

SECONDS_MAX = 90.0
"""Nothing but a hang takes so long."""


@pytest.mark.parametrize("ahead", [3_600, *(pytest.param(one, marks=pytest.mark.prove) for one in (-3_600, 600, -600))])
def test_a_clock_that_is_set_is_followed_and_reported(tmp_path, ahead):
    clock = FakeClock(tmp_path / "clock", ahead)
    with CountedCluster(["g"], clients=1) as cluster:
        collector = subprocess.Popen(
            [sys.executable, "-m", "streaming.cli", "collect", "poll"],
            env={**os.environ, **clock.environment, **settings_of(cluster, tmp_path)},
        )
        until(lambda: len(cluster.asked) > 1, SECONDS_MAX)
        clock.set(0)
        rounds = len(cluster.asked)
        until(lambda: len(cluster.asked) > rounds + 3, SECONDS_MAX)
        collector.send_signal(signal.SIGTERM)
        assert collector.wait(SECONDS_MAX) == 0
    lines = b"".join(gzip.decompress(file.read_bytes()) for file in files_of(tmp_path / "log", 0)).splitlines()
    logged = [decode(line, key=None, stamp=INT64_MAX, keyed=False) for line in lines]
    [at] = [place for place, event in enumerate(logged) if isinstance(event, ClockStep)]
    before, after, now = logged[:at], logged[at:], time.time_ns() // 1_000_000
    assert abs(logged[at].step + 1_000 * ahead) < 1_000
    assert all(abs(event.time - 1_000 * ahead - now) < 1_000 * SECONDS_MAX for event in before)
    assert all(abs(event.time - now) < 1_000 * SECONDS_MAX for event in after)
    assert all([event.time for event in part] == sorted(event.time for event in part) for part in (before, after))
    assert [event.seq for event in logged if event.BROADCAST] == list(range(1, 1 + sum(e.BROADCAST for e in logged)))
    answers = [event for event in logged if isinstance(event, Answer)]
    assert all(0 <= event.answered - event.asked <= 1_000 * SECONDS_MAX for event in answers)
    assert all(event.answered <= event.time for event in answers)
    assert any(isinstance(event, Tick) for event in before)
    assert logged[-1].end


def settings_of(cluster, root):
    """Return the settings of a collector that polls every two seconds, into a log of files, as environment."""
    prefix = "REBALANCE_WATCH_"
    return {
        f"{prefix}RUNTIME__ROOT": str(root),
        f"{prefix}COLLECTOR__NAME_SERVERS": json.dumps([cluster.address]),
        f"{prefix}COLLECTOR__INTERVAL_MS": "2000",
        f"{prefix}COLLECTOR__DEADLINE_MS": "1900",
        f"{prefix}SOURCE__KIND": "files",
        f"{prefix}SOURCE__PATH": str(root / "log"),
        f"{prefix}SOURCE__PARTITIONS": "1",
    }
