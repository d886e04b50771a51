"""Mutated calls of the broker's hook: it throws nothing into the broker, and writes only valid events."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from rebalance_model.observe import events
from streaming.base import jars
from streaming.base.java import java_home
from streaming.base.settings import load_settings
from streaming.collect.broker_hook.build import JAR, build
from tests.support import hooked

CALLS = Path(__file__).with_name("HookCalls.java")
GROWN_BYTES_MAX = 100_000_000
"""The hook's own limits are below 128 MB (RebalanceWatchHook); its tables fill within the first quarter."""


def run(spool, seed, calls, class_path):
    """Return calls, thrown, and the heap after a quarter of the calls and at the end, bytes."""
    properties = {"spool": spool, "broker": hooked.NAME, "cluster": "lab", "queueCapacity": 50_000}
    command = [
        str(java_home() / "bin" / "java"), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        *(f"-Drebalance.watch.{name}={value}" for name, value in properties.items()),
        "-cp", ":".join(map(str, class_path)), str(CALLS), str(seed), str(calls),
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2_000:]
    *thrown, figures = ran.stdout.splitlines()
    assert not any("threw" in line for line in thrown), thrown
    return (*map(int, figures.split()), ran.stderr)


def check(spool, seed, calls, class_path, tally):
    made, thrown, before, after, log = run(spool, seed, calls, class_path)
    assert (made, thrown) == (calls, 0)
    assert after - before < GROWN_BYTES_MAX
    assert "telemetry is lost" not in log  # by an error that is no part of a call
    found = hooked.spooled(spool)
    assert isinstance(found[-1], events.Tick)
    assert found[-1].end
    kinds = Counter(type(event).__name__ for event in found)
    assert {event.__name__ for event in events.HookEvent.__args__} <= set(kinds)
    assert kinds["ClockSeen"] > 0
    lost = sum(one.count for one in found if isinstance(one, events.TelemetryLost))
    tally.add("calls read", calls - lost)
    tally.add("calls reported as lost", lost)


@pytest.mark.parametrize("calls", [4_000, pytest.param(100_000, marks=pytest.mark.prove)])
def test_a_hook_throws_nothing_and_writes_only_valid_events(tmp_path, calls, tally):
    check(tmp_path, 7, calls, [*hooked.rocketmq_jars(), hooked.shared_hook_jar()], tally)


@pytest.mark.prove
def test_a_hook_of_4_9_throws_nothing_and_writes_only_valid_events(tmp_path, tally):
    jars_4_9 = jars.ensure("rocketmq4", load_settings().runtime.jars)
    check(tmp_path / "spool", 8, 50_000, [*jars_4_9, build(jars_4_9, tmp_path / JAR)], tally)
