"""Generate a random scenario from a seed: a cluster, and healthy changes or faults.

A third of the seeds are healthy: members join and leave cleanly, versions are rolled out, topics get more queues. The
others have one or two faults, one after the other, each with a realistic duration and time to settle after it.
"""

import random

from simulation.scenario import Scenario
from tests.detection import readers
from tests.detection.actions import (
    BROKER_FAULTS,
    FAULTS,
    FOREIGN_CLIENTS,
    HEALTHY,
    LAST_FAULTS,
    LATER_FAULTS,
    LATER_SHARE,
    MEMBER_FAULTS,
    WRONG_NAMES,
)
from tests.detection.builder import SETTLED, Action, ScenarioBuilder

_LATER = {
    "later": LATER_FAULTS,
    "last": LAST_FAULTS,
    "foreign": FOREIGN_CLIENTS,
    "member": MEMBER_FAULTS,
    "wrong name": WRONG_NAMES,
    "broker": BROKER_FAULTS,
}
"""Faults that were added one after the other, by the word that draws their seeds: so no seed's other faults change."""
READERS_SHARE = 0.25
"""The share of the healthy seeds that have a group of lite-pull consumers."""


def _add_healthy_group(builder: ScenarioBuilder, seed: int) -> None:
    """Add a group of another kind to a share of the healthy seeds: it broadcasts, or its clients do not answer 307."""
    rng = random.Random(f"group {seed}")
    if not is_healthy(seed) or rng.random() > LATER_SHARE:
        return
    codes: list[dict[str, object]] = [{"running_info_code": code} for code in (1, 3, 207)]
    kind = rng.choice([{"message_model": "BROADCASTING"}, *codes])
    builder.topics.append({"name": "Other", "queues": 4, "messages_per_second": 4 * len(builder.brokers) * 0.2})
    builder.groups.append({"name": "other", "topics": ["Other"], "consumers": 2, "ordered": rng.random() < 0.5, **kind})
    builder.steps.append({"at": SETTLED, "do": "leave", "who": "other-1", "lasts": 30})


def _add_readers(builder: ScenarioBuilder, seed: int) -> list[str]:
    """Add a group of lite-pull consumers to a share of the healthy seeds, and with a fault to fewer of the others."""
    builder.rng, healthy = random.Random(f"readers {seed}"), is_healthy(seed)
    if builder.rng.random() > (READERS_SHARE if healthy else LATER_SHARE):
        return []
    return [readers.add_group(builder, readers.HEALTHY if healthy else readers.FAULTS)]


def is_healthy(seed: int) -> bool:
    """Return whether the seed's scenario has no fault."""
    return seed % 3 == 0


def scenario_of(seed: int) -> Scenario:
    """Return the scenario of a seed, always the same one."""
    rng = random.Random(seed)
    builder = ScenarioBuilder(rng)
    _add_cluster(builder, min_queues=8 if is_healthy(seed) else 4)
    actions = HEALTHY if is_healthy(seed) else FAULTS
    names = rng.sample(list(actions), rng.choice([0, 1, 1, 2] if is_healthy(seed) else [1, 1, 2]))
    for name in names:
        builder.now += actions[name](builder) + rng.choice([SETTLED, rng.uniform(20, 60)])
    for drawn_by, faults in _LATER.items():
        names += _add_later_fault(builder, seed, faults, drawn_by)
    _add_healthy_group(builder, seed)
    names += _add_readers(builder, seed)
    return builder.scenario(names)


def _add_later_fault(builder: ScenarioBuilder, seed: int, faults: dict[str, Action], drawn_by: str) -> list[str]:
    """Add one of the faults to a share of the seeds that have faults; return its name."""
    builder.rng = random.Random(f"{drawn_by} {seed}")
    if is_healthy(seed) or builder.rng.random() > LATER_SHARE:
        return []
    name = builder.rng.choice(list(faults))
    builder.now += faults[name](builder) + SETTLED
    return [name]


def _add_cluster(builder: ScenarioBuilder, min_queues: int) -> None:
    """Add brokers, topics with at least `min_queues` queues (so many that no member is idle), and groups."""
    rng = builder.rng
    for name in ["broker-a", "broker-b"][: rng.choice([1, 1, 2])]:
        builder.brokers.append({"name": name, "clock_offset_ms": rng.choice([0, 0, rng.randint(-2000, 2000)])})
    for number in range(1, rng.choice([1, 1, 1, 2]) + 1):
        queues = max(min_queues, rng.choice([4, 4, 8, 16]))
        group_topics = [f"Topic{number}"]
        if rng.random() < 0.25:
            group_topics.append(f"More{number}")
        for topic in group_topics:
            rate = round(queues * len(builder.brokers) * rng.choice([0.05, 0.2, 0.5]), 3)
            builder.topics.append({"name": topic, "queues": queues, "messages_per_second": rate})
        builder.groups.append(
            {
                "name": f"g{number}",
                "topics": group_topics,
                "ordered": rng.random() < 0.6,
                "consumers": rng.randint(2, 4),
                "strategy": rng.choice(["AVG", "AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"]),
                "listener_ms": rng.choice([1, 5, 20]),
            }
        )
