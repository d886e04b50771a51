"""Cost of an event in the core, without Spark: ``python -m tests.instruments.bench core``.

Calls of Python functions are the same at each run, so that a change of one in a hundred is seen at any load of the
machine. Processor time is not: it stands beside that of `decode`, the same few lines everywhere. Beside the simulated
logs stand that of `bench_job`, and the demo's recording, whose hooks see real clients; of each the start is left out.
"""

import gzip
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import FrameType

import msgspec
import typer
from rich.console import Console

from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.engine.sources import TimelineState
from rebalance_model.observe.engine.timeline import Timeline
from rebalance_model.observe.events import AnyEvent, LockBatchMq
from rebalance_model.observe.events.decoding import decode
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state.clocks import Clocks
from simulation import scenario
from simulation.scenario import Scenario
from streaming.lab.demo import CAPTURE
from tests.detection.generator import scenario_of
from tests.instruments.figures import keep
from tests.support.compiled import build, importing
from tests.support.simulated import simulate
from tests.support.telemetry import spread_telemetry, telemetry

SEED = 1
"""Of the simulated log."""
SOURCES = {"polls": "poll", "both": "", "hooks": "hook"}
LARGE = ((4_096, 512), (10_000, 1_000))
"""Groups by queues and clients."""
ROUNDS = 3
"""How often a large group is polled."""
JOB_GROUPS, JOB_ROUNDS = 50, 40
"""Of the log of `bench_job`."""
STARTING = 0.2
"""The part of a log that is its start."""
_STEADY = 0.7
"""The part of a log after which nothing happens in it."""
_LATER = 2**60
"""A stamp of the log after every event."""


def main() -> None:
    """Measure, print the results beside the last ones, and keep them."""
    figures: dict[str, float] = {}
    log = simulate(scenario_of(SEED), SEED).events
    for name, prefix in SOURCES.items():
        events = [event for event in log if event.source_id.startswith(prefix)]
        costs, folding = _costs(name, events)
        figures |= costs | {f"{name}: times the decoding": folding / min(_decoding(events) for _ in range(2))}
    figures |= steady() | {f"compiled, {name}": figure for name, figure in _of_the_compiled().items()}
    for queues, clients in LARGE:
        events = list(telemetry(1, ROUNDS, clients=clients, queues=queues))
        figures |= _costs(f"{queues:,} queues, {clients:,} clients by polls", events, turns=1)[0]
    figures |= lock_renewal()
    Console(width=140).print(keep("core", figures))


def steady() -> dict[str, float]:
    """Return the processor time of an event in the steady state, by log; the least of three turns."""
    logs = {"the job's log": list(spread_telemetry(JOB_GROUPS, JOB_ROUNDS)), "the demo": recorded(CAPTURE)}
    return {f"{name}: µs an event": min(steady_time(events) for _ in range(3)) * 1e6 for name, events in logs.items()}


def _of_the_compiled() -> dict[str, float]:
    """Return the same of the compiled core; nothing where no C compiler is."""
    if shutil.which("cc") is None:
        return {}
    program = f"import json; from {__spec__.name} import steady; print(json.dumps(steady()))"
    said = subprocess.check_output([sys.executable, "-c", program], env=os.environ | importing(build()))
    return msgspec.json.decode(said, type=dict[str, float])


def _costs(name: str, events: list[AnyEvent], turns: int = 2) -> tuple[dict[str, float], float]:
    """Return the calls and the processor time of an event, and that of all, in seconds; the least of some turns."""
    count, walk = len(events), Walk()
    with walk.followed():
        fold_time(events)
    folding = min(fold_time(events) for _ in range(turns))
    return {f"{name}: calls an event": walk.calls / count, f"{name}: µs an event": folding / count * 1e6}, folding


def fold_time(events: list[AnyEvent]) -> float:
    """Return the processor time to fold the events of one shard, in seconds."""
    shard, began = Shard(None, GroupsInMemory(), Policy()), time.process_time()
    for event in events:
        shard.push(event, event.time)
    shard.finish()
    return time.process_time() - began


def steady_time(events: list[AnyEvent]) -> float:
    """Return the processor time of an event after the start, in seconds."""
    shard, first = Shard(None, GroupsInMemory(), Policy()), int(STARTING * len(events))
    for event in events[:first]:
        shard.push(event, event.time)
    began = time.process_time()
    for event in events[first:]:
        shard.push(event, event.time)
    shard.finish()
    return (time.process_time() - began) / (len(events) - first)


def recorded(recording: Path) -> list[AnyEvent]:
    """Return the events of a recording."""
    with gzip.open(recording) as lines:
        return [decode(line, key=None, stamp=_LATER, keyed=False) for line in lines]


def _decoding(events: list[AnyEvent]) -> float:
    encoded = [msgspec.json.encode(event) for event in events]
    began = time.process_time()
    for value in encoded:
        decode(value, key=None, stamp=_LATER, keyed=False)
    return time.process_time() - began


def lock_renewal() -> dict[str, float]:
    """Return the walk of a lock renewal, from its bytes to its rows; the median of the calm end of a log."""
    events = sorted(simulate(_calm(), 1).events, key=lambda event: event.time)
    arriving = Shard(None, GroupsInMemory(), Policy())
    folding = Timeline(TimelineState(), GroupsInMemory(), Policy(), Clocks(), writes_cluster=True)
    folding.idle_limit = sys.maxsize
    walks = []
    for number, event in enumerate(events):
        if number < _STEADY * len(events) or not isinstance(event, LockBatchMq):
            arriving.push(event, event.time)
            folding.fold(event)
            continue
        value, walk = msgspec.json.encode(event), Walk()
        with walk.followed():
            decode(value, key=None, stamp=_LATER, keyed=False)
            arriving.push(event, event.time)
            folding.fold(event)
        walks.append(walk)
    return {
        "lock renewal: calls": median(walk.calls for walk in walks),
        "lock renewal: modules": median(len(walk.modules) for walk in walks),
        "lock renewal: returns to another module": median(walk.returns for walk in walks),
    }


@dataclass
class Walk:
    """The functions that Python calls, without those of C."""

    calls: int = 0
    modules: set[str] = field(default_factory=set)
    returns: int = 0
    """To another module."""

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Count what is called within the block."""
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        module = frame.f_code.co_filename
        if "rebalance_model" not in module:
            return
        if event == "call":
            self.calls += 1
            self.modules.add(module)
        elif event == "return" and frame.f_back is not None:
            self.returns += frame.f_back.f_code.co_filename != module


def _calm() -> Scenario:
    return scenario.read(
        {
            "title": "calm",
            "minutes": 4,
            "topics": [{"name": "Orders", "queues": 8, "messages_per_second": 20}],
            "groups": [{"name": "g", "called": "c", "topics": ["Orders"], "ordered": True, "consumers": 3}],
            "story": [],
        }
    )


if __name__ == "__main__":
    typer.run(main)
