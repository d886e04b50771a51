"""A seed's run: its story told once, looked at every second, and what the observer makes of each kind of telemetry."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from rebalance_model.simulation import story
from rebalance_model.simulation.cluster import BROKERS_FIRST, START, Cluster
from rebalance_model.simulation.scenario import Scenario
from tests.detection.facts import Facts, Record
from tests.detection.generator import is_healthy, scenario_of
from tests.detection.memory import Memory
from tests.detection.oracle import conditions
from tests.detection.spans import Spans

TELEMETRY = ("hook", "poll", "both")
Told = tuple[int, AnyEvent]
"""An event, and the true time at which it was told; epoch milliseconds."""


@dataclass
class Found:
    """One incident, by true time; epoch milliseconds."""

    group: str
    code: str
    subject: str
    opened: int
    sub_cause: str
    severity: str
    """The worst that it has been."""
    resolved: int | None = None


@dataclass
class Run:
    """All that scoring needs of one seed."""

    seed: int
    healthy: bool
    spans: dict[str, Spans]
    """By group."""
    found: dict[str, list[Found]] = field(default_factory=dict)
    """By telemetry."""


def run(seed: int) -> Run:
    """Tell a seed's story and observe it."""
    return observe(seed, scenario_of(seed), healthy=is_healthy(seed))


def observe(seed: int, told: Scenario, *, healthy: bool = False) -> Run:
    """Tell a story, and observe it three times."""
    events: list[Told] = []
    cluster = Cluster(told, seed, lambda event: events.append((cluster.world.true_ms, event)))
    story.schedule(cluster)
    record = Record(cluster)
    memories = {group: Memory() for group in cluster.groups}
    spans = {group: Spans() for group in cluster.groups}
    before, seconds = START, BROKERS_FIRST // 1_000_000 + 1
    while seconds <= told.minutes * 60:
        cluster.run_until(seconds)
        record.look()
        now = cluster.world.true_ms
        for group, memory in memories.items():
            spans[group].look(now, before, conditions(Facts(cluster, record, group), memory))
        before, seconds = now, seconds + 1
    made = Run(seed, healthy, spans)
    for telemetry in TELEMETRY:
        made.found[telemetry] = incidents(events, telemetry, list(memories), cluster.brokers)
    return made


def incidents(events: Iterable[Told], telemetry: str, groups: Sequence[str], brokers: Container[str]) -> list[Found]:
    """The incidents that the observer finds by one kind of telemetry; one of the cluster counts for every group."""
    found: dict[tuple[str, str], Found] = {}
    for now, one in _transitions(events, telemetry):
        for group in (one.group,) if one.group else groups:
            name = one.incident_id, group
            if one.transition == "OPENED":
                subject = _subject(one, brokers)
                found[name] = Found(group, one.code, subject, now, one.sub_cause, one.severity)
            elif one.transition == "RESOLVED":
                found[name].resolved = now
            elif one.transition == "ESCALATED":
                found[name].severity = one.severity
    return list(found.values())


def _subject(one: IncidentTransition, brokers: Container[str]) -> str:
    """What the oracle knows it by: a collector, and the rebalance that made duplicates, have no name there."""
    nameless = one.code == "DUPLICATE_CONSUMPTION" or (not one.group and one.subject not in brokers)
    return "" if nameless else one.subject


def _transitions(events: Iterable[Told], telemetry: str) -> Iterator[tuple[int, IncidentTransition]]:
    """Each, at the true time at which the observer comes to it; the log's stamps are true."""
    shard, now = Shard(None, GroupsInMemory(), Policy()), 0
    for now, event in events:
        if telemetry == "both" or event.source_id.startswith(telemetry):
            yield from ((now, one) for one in shard.push(event, now) if isinstance(one, IncidentTransition))
    yield from ((now, one) for one in shard.finish() if isinstance(one, IncidentTransition))
