"""Mutated calls of the broker's hook: it throws nothing into the broker, and writes only valid events."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from rebalance_model.observe import events
from streaming.base import jars
from streaming.base.java import java_executable, java_home
from streaming.base.settings import load_settings
from streaming.collect.broker_hook import JAR, build
from streaming.lab.processes import JVM_FRUGAL
from tests.support import hooked

CALLS = Path(__file__).with_name("HookCalls.java")
ATTACK = Path(__file__).with_name("HookAttack.java")
INSTALLED = sorted({java.resolve() for java in Path("/usr/lib/jvm").glob("*/bin/java")}) or [java_executable()]
"""Every Java of this machine, also one that is too old or too new for Spark: a broker may run on it."""
MILLIS_A_ROUND_MAX = 16_000
"""Processor time of the hook's thread for the 16 bodies of a round: a second each."""
GROWN_BYTES_MAX = 100_000_000
"""The hook's own limits are below 128 MB (RebalanceWatchHook); its tables fill within the first quarter."""


def run(spool, seed, calls, class_path):
    """Return calls, thrown, and the heap after a quarter of the calls and at the end, bytes."""
    properties = {"spool": spool, "broker": hooked.NAME, "cluster": "lab", "queueCapacity": 50_000}
    properties["heartbeatSyncerTopic"] = "Orders"  # each send to it is taken for a heartbeat
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
    spooled = hooked.spooled(spool)
    assert isinstance(spooled[-1], events.Tick)
    assert spooled[-1].end
    kinds = Counter(type(event).__name__ for event in spooled)
    assert {event.__name__ for event in events.HookEvent.__args__} <= set(kinds)
    assert kinds["ClockSeen"] > 0
    lost = sum(one.count for one in spooled if isinstance(one, events.TelemetryLost))
    tally.add("calls read", calls - lost)
    tally.add("calls reported as lost", lost)


@pytest.mark.parametrize("calls", [4_000, pytest.param(100_000, marks=pytest.mark.prove)])
def test_a_hook_throws_nothing_and_writes_only_valid_events(tmp_path, calls, tally):
    check(tmp_path, 7, calls, [*hooked.rocketmq_jars(), hooked.shared_hook_jar()], tally)


@pytest.mark.prove
def test_a_hook_of_4_9_throws_nothing_and_writes_only_valid_events(tmp_path, tally):
    jars_4_9 = jars.ensure("rocketmq4", load_settings().runtime.jars)
    check(tmp_path / "spool", 8, 50_000, [*jars_4_9, build(jars_4_9, tmp_path / JAR)], tally)


def attack(folder, rounds, class_path, java):
    """Attack the hook; return its spool and what the attacker counted."""
    javac = [java_home() / "bin" / "javac", *(f"-J{option}" for option in JVM_FRUGAL), "--release", "8", "-nowarn"]
    compile_ = [*javac, "-d", folder, "-cp", class_path, ATTACK]
    subprocess.run([str(one) for one in compile_], check=True, capture_output=True)
    spool = folder / "spool"
    command = [
        java,
        "-Xmx200m",
        "-XX:+UseSerialGC",
        f"-Drebalance.watch.spool={spool}",
        "-cp",
        f"{folder}:{class_path}",
        "HookAttack",
        rounds,
    ]
    ran = subprocess.run([str(one) for one in command], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2_000:]
    assert "telemetry is lost" not in ran.stderr
    return spool, [int(one) for one in ran.stdout.splitlines()[-1].split()]


def check_attack(folder, rounds, hook, jars, java, tally):
    class_path = ":".join(map(str, [hook, *jars]))
    spool, (calls, commits, millis, heap) = attack(folder, rounds, class_path, java)
    spooled = hooked.spooled(spool)
    assert isinstance(spooled[-1], events.Tick)
    assert spooled[-1].end
    own = (events.Tick, events.BrokerStatus, events.TelemetryLost)
    written = [one for one in spooled if not isinstance(one, own)]
    lost = Counter()
    for event in spooled:
        if isinstance(event, events.TelemetryLost):
            lost[event.reason] += event.count
    del lost["unreadable field"]  # of calls that are reported
    assert len(written) + lost.total() == calls
    assert lost.keys() <= {"unreadable request", "event too large", "queue full", "broker ended"}, "no error of its own"
    kept = sum(isinstance(one, events.UpdateConsumerOffset) for one in written)
    assert kept >= commits - lost["queue full"] - lost["broker ended"]
    assert millis <= rounds * MILLIS_A_ROUND_MAX
    tally.note(f"{millis // rounds} ms of processor time a round, a heap of {heap} MB, lost {dict(lost)}")
    tally.add("calls of an attacker read", len(written))
    tally.add("counted as lost", lost.total())


def test_an_attacker_costs_a_hook_neither_its_end_nor_a_call(tmp_path, tally):
    check_attack(tmp_path, 2, hooked.shared_hook_jar(), hooked.rocketmq_jars(), java_executable(), tally)


@pytest.mark.prove
@pytest.mark.parametrize("java", INSTALLED, ids=lambda java: java.parents[1].name)
@pytest.mark.parametrize("release", ["rocketmq4", "rocketmq"])
def test_an_attacker_of_any_release_on_any_java_costs_a_hook_nothing(tmp_path, tally, release, java):
    of_release = jars.ensure(release, load_settings().runtime.jars)
    check_attack(tmp_path, 12, build(of_release, tmp_path / JAR), of_release, java, tally)
