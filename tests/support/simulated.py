"""Simulated scenarios, and the observer's results."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from rebalance_model.observe.effects import AnyEffect, IncidentTransition
from rebalance_model.observe.events import Answer, AnyEvent, BrokerStatus, Tick
from simulation import scenario, story
from simulation.__main__ import read_scenario
from simulation.cluster import BROKERS_FIRST, START, SimulatedCluster
from tests.support.folding import folded

BEGAN = START + BROKERS_FIRST // 1000
"""The time of the poll collector's first request."""

SMALL = {
    "title": "small",
    "minutes": 5,
    "topics": [{"name": "Orders", "queues": 8, "messages_per_second": 6}],
    "groups": [{"name": "g", "called": "c", "topics": ["Orders"], "ordered": True, "consumers": 3}],
}


@dataclass
class SimulatedRun:
    """A simulated scenario and its telemetry."""

    cluster: SimulatedCluster
    events: list[AnyEvent]

    def effects(self) -> list[AnyEffect]:
        """Return the effects of the poll collector's events."""
        polled = [
            one for one in self.events if isinstance(one, Answer | BrokerStatus | Tick) and one.source_id[0] == "p"
        ]
        return folded(polled)

    def incidents(self) -> set[str]:
        """Return ``CODE sub-cause subject's-queue`` of each incident, by its last sub-cause."""
        return {name for _, _, name in transitions(self.effects())}

    def of(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]


def transitions(effects: Iterable[AnyEffect]) -> list[tuple[float, str, str]]:
    """Return seconds since the start of the scenario, transition and ``CODE sub-cause`` of each transition."""
    return [
        ((one.time - START) / 1000, one.transition, f"{one.code} {one.sub_cause}".strip())
        for one in effects
        if isinstance(one, IncidentTransition)
    ]


def small(*steps: dict[str, object], **changes: object) -> scenario.Scenario:
    """Return a scenario of three consumers of eight ordered queues with these steps."""
    made = scenario.read({**SMALL, **changes, "story": steps})
    story.check(made)
    return made


def simulate(
    described: scenario.Scenario | str, seed: int = 1, *, until: float | None = None, **options: bool
) -> SimulatedRun:
    """Run a scenario, or that of a file of simulation/scenarios, to its end or up to a time."""
    made = read_scenario(described) if isinstance(described, str) else described
    every_step = options.pop("every_step", False)
    events: list[AnyEvent] = []
    cluster = SimulatedCluster(made, seed, events.append, **options)
    cluster.world.every_step = every_step
    story.schedule(cluster)
    cluster.run_until(made.minutes * 60 if until is None else until)
    return SimulatedRun(cluster, events)


def truth(cluster: SimulatedCluster) -> list[bytes]:
    """Return the ground truth, sorted."""
    return sorted(map(msgspec.json.encode, cluster.world.truth.records))


def shares(cluster: SimulatedCluster, group: str = "g") -> dict[str, list[int]]:
    """Return the queue ids that each client really has."""
    shares: dict[str, list[int]] = {}
    for queue, names in cluster.owners(group).items():
        for name in names:
            shares.setdefault(name, []).append(queue.queue_id)
    return dict(sorted(shares.items()))
