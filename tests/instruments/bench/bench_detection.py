"""The time to detect of each rule, and the cost of the rules: ``python -m tests.instruments.bench detection``.

It prints three tables: precision, recall and time to detect by seeded runs of the simulated cluster (the long form is
``python -m tests.detection``); the time of an event with all rules and with none; the bytes of a group's state.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import typer
from rich.console import Console
from rich.table import Table

from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.rules import judgement
from simulation import scenario
from simulation.scenario import Scenario
from tests.detection.generator import scenario_of
from tests.detection.proof import Proof, prove, table
from tests.instruments.bench.bench_core import fold_time
from tests.support.simulated import simulate

QUEUES = (16, 256, 4_096)
RULES = ("QUEUE_RULES", "CLIENT_RULES", "BROKER_RULES", "GROUP_RULES")
CHOICES = ("queue_rules", "client_rules")
PAIRS = 5


def main(seeds: int = 40) -> None:
    """Measure and print the results."""
    console, proof = Console(width=140), Proof()
    for one in prove(range(seeds)):
        proof.add(one)
    console.print(table(proof))
    console.print(_costs())
    console.print(_bytes())


def _costs() -> Table:
    made = Table("telemetry", "events", "with rules, µs", "without, µs", "ratio", title="What an event costs")
    logs = [simulate(scenario_of(seed), seed).events for seed in (1, 2, 7, 9)]
    for source in ("hook", "poll", ""):
        part = [[event for event in log if event.source_id.startswith(source)] for log in logs]
        pairs = [(sum(map(fold_time, part)), sum(map(_without_rules, part))) for _ in range(PAIRS)]
        count = sum(map(len, part))
        on, off = (min(times) * 1e6 / count for times in zip(*pairs, strict=True))
        ratio = median(one / other for one, other in pairs)
        made.add_row(source or "both", f"{count:,}", f"{on:.1f}", f"{off:.1f}", f"{ratio:.2f}")
    return made


def _without_rules(events: list[AnyEvent]) -> float:
    with _no_rules():
        return fold_time(events)


@contextmanager
def _no_rules() -> Iterator[None]:
    kept = {name: getattr(judgement, name) for name in (*RULES, *CHOICES)}
    for name in RULES:
        setattr(judgement, name, ())
    for name in CHOICES:
        setattr(judgement, name, lambda _: ())
    yield
    for name, rules in kept.items():
        setattr(judgement, name, rules)


def _bytes() -> Table:
    made = Table("queues", "members", "bytes", "a queue", title="The state of a group that was killed a member of")
    for queues in QUEUES:
        groups = GroupsInMemory()
        shard, clients = Shard(None, groups, Policy()), min(16, queues // 4)
        for event in simulate(_large(queues, clients), 1).events:
            shard.push(event, event.time)
        shard.finish()
        shard.flush()
        [blob] = [blob for key, blob in groups.items() if not key.startswith("progress ")]
        made.add_row(f"{queues:,}", str(clients), f"{len(blob):,}", f"{len(blob) / queues:.0f}")
    return made


def _large(queues: int, clients: int) -> Scenario:
    return scenario.read(
        {
            "title": "large",
            "minutes": 3,
            "topics": [{"name": "Orders", "queues": queues, "messages_per_second": queues / 20}],
            "groups": [{"name": "g", "called": "c", "topics": ["Orders"], "ordered": True, "consumers": clients}],
            "story": [{"at": 60, "do": "kill", "who": "c-1", "lasts": 60}],
        }
    )


if __name__ == "__main__":
    typer.run(main)
