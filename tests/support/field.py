"""Fold a public report's telemetry (`tests/field/cases`), and look at what is concluded."""

import gzip
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from rebalance_model.observe.effects import AnyEffect, GroupSnapshot, IncidentTransition, QueueSnapshot
from rebalance_model.observe.events import AnyEvent, ConsumerRunningInfo, RpcError, key_of
from rebalance_model.observe.events.decoding import decode
from rebalance_model.observe.policy import Policy
from tests.support.folding import folded
from tests.support.invariants import violations

CASES = Path(__file__).parents[1] / "field/cases"
Change = Callable[[AnyEvent, float], AnyEvent | None]
"""Returns an event as it was instead, by the seconds since the start; None: it is left out."""
SOURCES = ("poll", "hook", "both")
"""The kinds of telemetry of a case: a collector's, a hook's of each broker, or both."""


class Concluded(NamedTuple):
    """The conclusions of a case."""

    effects: list[AnyEffect]
    start: int
    """The time of its first event, epoch milliseconds."""

    def transitions(self, *codes: str) -> list[IncidentTransition]:
        """Return the transitions of incidents, of these codes or of all."""
        found = [one for one in self.effects if isinstance(one, IncidentTransition)]
        return [one for one in found if not codes or one.code in codes]

    def open_at_end(self) -> list[IncidentTransition]:
        """Return the last transition of each incident that is open at the end."""
        last = {one.incident_id: one for one in self.transitions()}
        return [one for one in last.values() if one.transition != "RESOLVED"]

    def queues(self) -> dict[str, QueueSnapshot]:
        """Return the last state of each queue, by its name."""
        found = [one for one in self.effects if isinstance(one, QueueSnapshot)]
        return {f"{one.topic}@{one.broker}:{one.queue_id}": one for one in found}

    def group(self) -> GroupSnapshot:
        """Return the last state of the group."""
        return [one for one in self.effects if isinstance(one, GroupSnapshot)][-1]

    def seconds(self, row: AnyEffect) -> float:
        """Return when a row was written, in seconds after the start of the case."""
        return (row.time - self.start) / 1000


def events_of(name: str, source: str) -> list[AnyEvent]:
    """Return the events of a case by one kind of telemetry."""
    return list(_events_of(name, source))


@lru_cache(maxsize=8)
def _events_of(name: str, source: str) -> tuple[AnyEvent, ...]:
    with gzip.open(CASES / name / f"input-{source}.jsonl.gz") as lines:
        return tuple(decode(line.rstrip(b"\n"), key=None, stamp=2**62, keyed=False) for line in lines)


def concluded_of(events: Iterable[AnyEvent], policy: Policy | None = None) -> Concluded:
    """Return what is concluded of events."""
    given = list(events)
    effects = folded(given, policy)
    assert violations(effects) == []
    return Concluded(effects, given[0].time)


@lru_cache(maxsize=16)
def concluded(name: str, source: str) -> Concluded:
    """Return what is concluded of a case by one kind of telemetry."""
    return concluded_of(events_of(name, source))


def changed(event: AnyEvent, **fields: object) -> AnyEvent:
    """Return an event with other values: for near misses and recoveries."""
    return msgspec.structs.replace(event, **fields)


def changed_events(name: str, source: str, *changes: Change) -> list[AnyEvent]:
    """Return the events of a case with changes; nothing is missing from them."""
    events = events_of(name, source)
    start = events[0].time
    altered = []
    for event in events:
        now: AnyEvent | None = event
        for change in changes:
            now = change(now, (event.time - start) / 1000) if now is not None else None
        if now is not None:
            altered.append(now)
    return numbered(altered)


def without_answer(event: AnyEvent, code: int) -> AnyEvent:
    """Return a client's answer as it is if the request fails with a code; other events as they are."""
    if not isinstance(event, ConsumerRunningInfo):
        return event
    nothing = {"queues": None, "orderly": None, "subscriptions": (), "pop_queues": (), "stacks": (), "properties": {}}
    return changed(event, error=RpcError(code=code, remark=""), **nothing)


def numbered(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """Return events in the order of their time, with the numbers that their sources give them."""
    numbers, in_order = Counter[tuple[str, str]](), []
    for event in sorted(events, key=lambda one: one.time):
        numbers[of := (event.source_id, key_of(event))] += 1
        in_order.append(changed(event, seq=numbers[of]))
    return in_order
