"""Digests of what the core concludes of many logs: ``python -m tests.support.digests SEEDS EACH`` prints them as JSON.

The logs are the demo's recording, polled groups, each n-th public report, and this many simulated groups. A process of
its own can import another build of the core, by PYTHONPATH (`tests/core/test_compiled.py`).
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator

import msgspec

from rebalance_model.observe.engine import timeline
from rebalance_model.observe.engine.salvage import Saved
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from streaming.lab.demo import CAPTURE
from tests.detection.generator import scenario_of
from tests.instruments.bench.bench_core import recorded
from tests.support import field
from tests.support.simulated import simulate
from tests.support.telemetry import spread_telemetry


def concluded(events: Iterable[AnyEvent]) -> tuple[list[object], Saved, dict[str, bytes]]:
    """Return the rows of a log, and the state after it."""
    groups = GroupsInMemory()
    shard = Shard(None, groups, Policy())
    rows = [row for event in events for row in shard.push(event, event.time)]
    rows += shard.finish()
    saved = shard.flush()
    return rows, saved, {key: groups.get(key) or b"" for key in groups}


def logs(seeds: int, each: int) -> Iterator[tuple[str, list[AnyEvent]]]:
    """Yield the demo's recording, polled groups, each n-th public report, and simulated groups, by name."""
    yield "demo", recorded(CAPTURE)
    yield "polls", list(spread_telemetry(10, 30))
    for file in sorted(field.CASES.glob("*/input-*.jsonl.gz"))[::each]:
        name, source = file.parent.name, file.name.removeprefix("input-").removesuffix(".jsonl.gz")
        yield f"{name} by {source}", field.events_of(name, source)
    for seed in range(seeds):
        yield f"seed {seed}", simulate(scenario_of(seed), seed).events


if __name__ == "__main__":
    encode = msgspec.msgpack.Encoder(order="deterministic").encode
    named = logs(*map(int, sys.argv[1:]))
    digests = {name: hashlib.sha256(encode(concluded(events))).hexdigest() for name, events in named}
    print(json.dumps({"core": timeline.__file__.rpartition(".")[2], **digests}))
