"""Run a seed's scenario once: the ground truth at every second, and the incidents by each kind of telemetry."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rebalance_model.observe.effects import GroupSnapshot, IncidentTransition
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from simulation import story
from simulation.cluster import BROKERS_FIRST, START, SimulatedCluster
from simulation.scenario import Scenario
from tests.detection import pop_generator
from tests.detection.generator import is_healthy, scenario_of
from tests.detection.history import History
from tests.detection.invariants import Health, Standing
from tests.detection.oracle import conditions
from tests.detection.recorder import Recorder
from tests.detection.snapshot import Snapshot
from tests.detection.spans import Spans
from tests.support.invariants import violations

TELEMETRY = ("hook", "poll", "both")
SentEvent = tuple[int, AnyEvent]
"""The true time at which an event was sent, in epoch milliseconds, and the event."""
_Kept = IncidentTransition | GroupSnapshot
Concluded = tuple[int, _Kept]
"""A row, and the true time of the event that made it."""


@dataclass
class Incident:
    """An incident of one group; true times in epoch milliseconds."""

    group: str
    code: str
    subject: str
    opened: int
    sub_cause: str
    severity: str
    """The highest so far."""
    evidence: str = "{}"
    """When it was opened; JSON."""
    resolved: int | None = None


@dataclass
class Run:
    """The facts of one seed that scoring needs."""

    seed: int
    healthy: bool
    spans: dict[str, Spans]
    """By group: when the conditions of the rules held."""
    incidents: dict[str, list[Incident]] = field(default_factory=dict)
    """By telemetry."""
    violations: dict[str, list[str]] = field(default_factory=dict)
    """What must hold of any telemetry's rows, and does not; by telemetry."""
    health: dict[str, dict[str, Health]] = field(default_factory=dict)
    """By telemetry and group."""


def run_seed(seed: int) -> Run:
    """Simulate a seed's scenario and observe it."""
    return observe(seed, scenario_of(seed), healthy=is_healthy(seed))


def run_popped_seed(seed: int) -> Run:
    """Simulate the scenario of a seed whose consumers pop, and observe it."""
    return observe(seed, pop_generator.scenario_of(seed), healthy=is_healthy(seed))


def observe(seed: int, scenario: Scenario, *, healthy: bool = False) -> Run:
    """Simulate a scenario once, and observe its events by each kind of telemetry."""
    events: list[SentEvent] = []
    cluster = SimulatedCluster(scenario, seed, lambda event: events.append((cluster.world.true_ms, event)))
    story.schedule(cluster)
    recorder = Recorder(cluster)
    histories = {group: History() for group in cluster.groups}
    spans = {group: Spans() for group in cluster.groups}
    standing = {group: Standing() for group in cluster.groups}
    previous, seconds = START, BROKERS_FIRST // 1_000_000 + 1
    while seconds <= scenario.minutes * 60:
        cluster.run_until(seconds)
        recorder.sample()
        now = cluster.world.true_ms
        for group, history in histories.items():
            snapshot = Snapshot(cluster, recorder, group)
            spans[group].add(now, previous, conditions(snapshot, history))
            standing[group].add(snapshot)
        previous, seconds = now, seconds + 1
    result = Run(seed, healthy, spans)
    for telemetry in TELEMETRY:
        effects = list(_effects(events, telemetry))
        result.incidents[telemetry] = _incidents(effects, list(histories), cluster.brokers)
        result.violations[telemetry] = violations(effect for _, effect in effects)
        result.health[telemetry] = _health(effects, cluster.groups)
        for group, health in result.health[telemetry].items():
            result.violations[telemetry] += standing[group].shown_ok(health, telemetry)
    return result


def _health(effects: Iterable[Concluded], groups: Iterable[str]) -> dict[str, Health]:
    """Return the health of each group over time."""
    by_group = {group: Health() for group in groups}
    for now, row in effects:
        if isinstance(row, GroupSnapshot) and row.group in by_group:
            by_group[row.group].add(now, row)
    return by_group


def _incidents(effects: Iterable[Concluded], groups: Sequence[str], brokers: Container[str]) -> list[Incident]:
    """Return the incidents by one kind of telemetry; an incident of the cluster counts once for each group."""
    by_id: dict[tuple[str, str], Incident] = {}
    for now, transition in effects:
        if isinstance(transition, GroupSnapshot):
            continue
        for group in (transition.group,) if transition.group else groups:
            key = transition.incident_id, group
            if transition.transition == "OPENED":
                subject = _subject(transition, brokers)
                by_id[key] = Incident(
                    group, transition.code, subject, now, transition.sub_cause, transition.severity, transition.evidence
                )
            elif transition.transition == "RESOLVED":
                by_id[key].resolved = now
            elif transition.transition == "ESCALATED":
                by_id[key].severity = transition.severity
    return list(by_id.values())


def _subject(transition: IncidentTransition, brokers: Container[str]) -> str:
    """Return the subject as the oracle names it: empty for a collector, and for the rebalance that made duplicates."""
    unnamed = transition.code == "DUPLICATE_CONSUMPTION" or (not transition.group and transition.subject not in brokers)
    return "" if unnamed else transition.subject


def _effects(events: Iterable[SentEvent], telemetry: str) -> Iterator[Concluded]:
    """Yield rows of groups and incidents with the true time of their event; the log's timestamps are true."""
    shard, now = Shard(None, GroupsInMemory(), Policy()), 0
    for now, event in events:
        if telemetry == "both" or event.source_id.startswith(telemetry):
            yield from ((now, one) for one in shard.push(event, now) if isinstance(one, _Kept))
    yield from ((now, one) for one in shard.finish() if isinstance(one, _Kept))
