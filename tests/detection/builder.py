"""The parts of a random scenario, to which each action adds its own."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from simulation import scenario, story
from simulation.scenario import Scenario

SETTLED = 90
"""The time in which a cluster settles after its start, and after half of the actions; seconds."""


@dataclass
class ScenarioBuilder:
    """Collects the parts of a scenario."""

    rng: random.Random
    brokers: list[dict[str, object]] = field(default_factory=list)
    topics: list[dict[str, object]] = field(default_factory=list)
    groups: list[dict[str, object]] = field(default_factory=list)
    steps: list[dict[str, object]] = field(default_factory=list)
    now: float = SETTLED
    """When the next action starts; seconds from the scenario's start."""
    gone: set[str] = field(default_factory=set)
    """The members that have left permanently."""
    joined: int = 0

    def members(self, group: dict[str, object]) -> list[str]:
        """Return the members since the start that have not left permanently."""
        names = [f"{group['name']}-{number}" for number in range(1, int(str(group["consumers"])) + 1)]
        return [name for name in names if name not in self.gone]

    def members_with(self, who: str) -> list[str]:
        """Return the members of the group of `who`."""
        return next(self.members(group) for group in self.groups if who in self.members(group))

    def group(self) -> dict[str, object]:
        """Draw a group."""
        return self.rng.choice(self.groups)

    def member(self) -> str:
        """Draw a member of any group."""
        groups = [group for group in self.groups if len(self.members(group)) > 0]
        return self.rng.choice(self.members(self.rng.choice(groups)))

    def add_step(self, kind: str, lasts: float | None = None, *, after: float = 0, **fields: object) -> None:
        """Add a step that starts `after` seconds from now and is undone after `lasts` seconds, or never."""
        step = {"at": round(self.now + after, 3), "do": kind, **fields}
        self.steps.append(step if lasts is None else {**step, "lasts": round(lasts, 3)})

    def scenario(self, names: Sequence[str]) -> Scenario:
        """Return the scenario of all parts, titled by the names of its actions."""
        steps = sorted(self.steps, key=lambda step: float(str(step["at"])))
        result = scenario.read(
            {
                "title": ", ".join(names) or "no action",
                "minutes": (self.now + SETTLED) / 60,
                "brokers": self.brokers,
                "topics": self.topics,
                "groups": self.groups,
                "story": steps,
            }
        )
        story.check(result)
        return result

    def newcomer(self, group: dict[str, object]) -> str:
        """Return an unused client name; it sorts before or after the others."""
        self.joined += 1
        return f"{group['name']}-{self.rng.choice('0x')}{self.joined}"

    def ordered_group(self, per_second: float) -> dict[str, object]:
        """Draw a group and make it ordered; each of its queues gets `per_second` messages a second."""
        group = self.group()
        group["ordered"] = True
        for topic in self.topics:
            if topic["name"] in topics_of(group):
                topic["messages_per_second"] = int(str(topic["queues"])) * len(self.brokers) * per_second
        return group


Action = Callable[[ScenarioBuilder], float]
"""Adds the steps of a change or fault, and returns its duration in seconds."""


def topics_of(group: dict[str, object]) -> list[str]:
    """Return the topics of a group."""
    return list(group["topics"])


def queue_count(builder: ScenarioBuilder, group: dict[str, object]) -> int:
    """Return the number of queues of a group's topics on all brokers."""
    counts = {str(topic["name"]): int(str(topic["queues"])) for topic in builder.topics}
    return len(builder.brokers) * sum(counts[topic] for topic in topics_of(group))
