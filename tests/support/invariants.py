"""Invariants of the rows of any telemetry, with any rules: checked over cases, recordings and seeds."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rebalance_model.observe.effects import AnyEffect, GroupSnapshot, IncidentTransition, QueueProgress


def violations(effects: Iterable[AnyEffect]) -> list[str]:
    """Return each violation once; empty: there is none.

    No open incident has a parent that is resolved, and none has a code that does not apply to its group. The numbers of
    an incident's evidence are of one instant.
    """
    rows, broken, now = _Known(), dict[str, None](), 0
    for effect in effects:
        if isinstance(effect, GroupSnapshot | IncidentTransition):
            if effect.time > now:
                broken |= dict.fromkeys(rows.violations())
                now = effect.time
            rows.note(effect)
        if isinstance(effect, IncidentTransition):
            broken |= dict.fromkeys(_of_evidence(effect))
    return list(broken | dict.fromkeys(rows.violations()))


def _of_evidence(row: IncidentTransition) -> Iterator[str]:
    """Yield what contradicts itself in one row of an incident."""
    numbers = json.loads(row.evidence)
    what = f"{row.group} {row.code} {row.subject} {row.transition}"
    lag, at_least, commit, newest = (
        numbers.get(name) for name in ("lag", "lag_at_least", "commit_offset", "broker_offset")
    )
    if lag is not None and at_least is not None:
        yield f"{what}: a lag of {lag}, and a bound, {at_least}"
    if commit is not None and newest is not None and lag != (newest - commit if commit <= newest else None):
        yield f"{what}: a lag of {lag}, and {newest} - {commit}"
    if row.opened_at > row.time:
        yield f"{what}: opened {row.opened_at - row.time} ms after it"
    for name, value in numbers.items():
        if name.endswith(("_ms", "lag", "_at_least")) and isinstance(value, int) and value < 0:
            yield f"{what}: {name} is {value}"


def contradictions(row: QueueProgress) -> Iterator[str]:
    """Yield what contradicts itself in one row of the quantities: of each queue the offsets, the lag, and the times."""
    for number, (topic, queue_id) in enumerate(zip(row.topic, row.queue_id, strict=True)):
        of_queue = {name: values[number] for name in _ARRAYS if (values := getattr(row, name))}
        what = f"{row.group} {row.source} {row.kind} {topic}:{queue_id}"
        newest, commit, lag = (of_queue.get(name) for name in ("broker_offset", "commit_offset", "lag"))
        is_bound, is_popped = of_queue.get("lag_is_at_least", False), of_queue.get("in_flight_since") is not None
        if newest is not None and commit is not None and lag is not None and not is_popped:
            known = newest - commit  # of a topic that was created again the commit is beyond: then no lag is known
            if known < 0 or (lag < known if is_bound else lag != known):
                yield f"{what}: lag {lag}{' at least' if is_bound else ''}, {newest} - {commit}"
        for name, value in of_queue.items():
            if name.endswith("_at") and value is not None and value > row.time:
                yield f"{what}: {name} is {value - row.time} ms after the row"
            if name in {"lag", "in_flight", "ready", "waiting_ms"} and value is not None and value < 0:
                yield f"{what}: {name} is {value}"
        if lag == 0 and not is_bound and of_queue.get("waiting_ms"):
            yield f"{what}: nothing waits, for {of_queue['waiting_ms']} ms"
    if row.asked_at is not None and row.asked_at > row.time:
        yield f"{row.group} {row.kind}: asked {row.asked_at - row.time} ms after the answer"


_ARRAYS = (
    "broker_offset", "commit_offset", "lag", "lag_is_at_least", "in_flight", "in_flight_since", "ready", "waiting_ms",
    "commit_at", "lock_at", "pull_at", "consume_at", "stored_at",
)  # fmt: skip


@dataclass
class _Known:
    """The open incidents, and what does not apply, by the rows so far."""

    open: dict[str, IncidentTransition] = field(default_factory=dict)
    inapplicable: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def note(self, effect: GroupSnapshot | IncidentTransition) -> None:
        if isinstance(effect, GroupSnapshot):
            rules = json.loads(effect.coverage).get("inapplicable_rules", ())
            self.inapplicable[effect.cluster, effect.group] = set(rules)
        elif effect.transition == "RESOLVED":
            self.open.pop(effect.incident_id, None)
        else:
            self.open[effect.incident_id] = effect

    def violations(self) -> Iterator[str]:
        for incident in self.open.values():
            if incident.parent is not None and incident.parent not in self.open:
                yield f"{incident.group} {incident.code} {incident.subject}: its parent {incident.parent} is not open"
            if incident.code in self.inapplicable.get((incident.cluster, incident.group), ()):
                yield f"{incident.group} {incident.code} {incident.subject}: it does not apply, and is open"
