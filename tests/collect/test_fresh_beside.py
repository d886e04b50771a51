"""A healthy group behind a healthy broker is fresh in every round, whatever else is listed: over real TCP.

The long form runs the collector as a process at its real interval, beside one case after the other. The short form has
all of them at once in a small size; what each part of the collector does about it has tests of its own.
"""

import asyncio
import os
import resource
import time
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from rebalance_model.observe.events.decoding import decode
from streaming.base.settings import load_settings
from streaming.collect.collector import collect
from tests.live.commands import Command
from tests.support.beside import CASES, Freshness

ROUNDS, INTERVAL = 6, 10.0
MEMORY_MAX = 400_000_000
"""Bytes above a run with nothing beside the healthy group."""
STOP_SECONDS_MAX = 12.0


def test_a_healthy_group_is_fresh_beside_much_at_once():
    rounds, interval, events = 4, 3.0, []
    with ExitStack() as open_:
        cluster = open_.enter_context(CASES["much at once, in small"](open_, interval))
        collector = {"name_servers": [cluster.address], "interval_ms": 3_000, "deadline_ms": 2_700}
        settings = load_settings(collector=collector | {"client_deadline_ms": 2_700})
        began = time.time()
        asyncio.run(collect(settings, events.extend, rounds=rounds, report=lambda _: None))
    freshness = Freshness(min(event.asked for event in events if getattr(event, "asked", 0)) / 1_000, interval)
    for event in events:
        freshness.note(event)
    assert len(freshness.stale(rounds)) <= 1, freshness.stale(rounds)
    assert time.time() - began < 10 * rounds * interval


@cache
def quiet_bytes(folder):
    """Return the memory of a run with nothing beside the healthy group."""
    return ran("nothing", folder).peak


class Run:
    """A run of a collector as a process beside a case."""

    def __init__(self, stale, peak, stop_seconds, said):
        self.stale = stale
        self.peak = peak
        self.stop_seconds = stop_seconds
        self.said = said


def ran(name, folder):
    """Run the collector beside a case for some rounds, and end it."""
    folder.mkdir(exist_ok=True)
    recording = folder / "recording.jsonl"
    with ExitStack() as open_:
        cluster = open_.enter_context(CASES[name](open_, INTERVAL))
        given = {"COLLECTOR__NAME_SERVERS": cluster.address, "RUNTIME__ROOT": folder, "HEALTH__POLL": 0}
        with Command(folder, given, "collect", "poll", "--to", recording) as collector:
            collector.start()
            time.sleep(ROUNDS * INTERVAL)
            status = Path(f"/proc/{collector.pid}/status").read_text().splitlines()
            [peak] = [1_024 * int(line.split()[1]) for line in status if line.startswith("VmHWM")]
            began = time.monotonic()
            assert collector.interrupt() == 0
            seconds, said = time.monotonic() - began, collector.said()
    events = [decode(line, key=None, stamp=2**62, keyed=False) for line in recording.read_bytes().splitlines()]
    freshness = Freshness(min(event.asked for event in events if getattr(event, "asked", 0)) / 1_000, INTERVAL)
    for event in events:
        freshness.note(event)
    return Run(freshness.stale(ROUNDS - 1), peak, seconds, said)


@pytest.mark.prove
@pytest.mark.parametrize("name", [name for name in CASES if name != "nothing"])
def test_a_healthy_group_is_fresh_at_the_real_interval(name, tmp_path, tmp_path_factory):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the servers of a case are in this process
    run = ran(name, tmp_path / "run")
    quiet = quiet_bytes(tmp_path_factory.getbasetemp() / f"quiet-{os.getpid()}")
    assert len(run.stale) <= 1, run.stale
    assert run.peak - quiet <= MEMORY_MAX
    assert run.stop_seconds <= STOP_SECONDS_MAX
    assert "Traceback" not in run.said
