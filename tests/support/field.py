"""Fold a public report's telemetry (`tests/field/cases`), and look at what is concluded."""

import gzip
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from rebalance_model.observe.decoding import decode
from rebalance_model.observe.effects import AnyEffect, GroupSnapshot, IncidentTransition, QueueSnapshot
from rebalance_model.observe.events import AnyEvent
from tests.support.folding import folded

CASES = Path(__file__).parents[1] / "field/cases"
SOURCES = ("poll", "hook", "both")
"""The kinds of telemetry of a case: a collector's, a hook's of each broker, or both."""


class Concluded(NamedTuple):
    """What is concluded of a case."""

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

    def seconds(self, one: AnyEffect) -> float:
        """Return when a row was written, in seconds after the start of the case."""
        return (one.time - self.start) / 1000


def events_of(name: str, source: str) -> list[AnyEvent]:
    """Return the events of a case by one kind of telemetry."""
    with gzip.open(CASES / name / f"input-{source}.jsonl.gz") as lines:
        return [decode(line.rstrip(b"\n"), key=None, stamp=2**62, keyed=False) for line in lines]


def concluded_of(events: Iterable[AnyEvent]) -> Concluded:
    """Return what is concluded of events."""
    told = list(events)
    return Concluded(folded(told), told[0].time)


@lru_cache(maxsize=16)
def concluded(name: str, source: str) -> Concluded:
    """Return what is concluded of a case by one kind of telemetry."""
    return concluded_of(events_of(name, source))


def changed(event: AnyEvent, **fields: object) -> AnyEvent:
    """Return an event with other values: for near misses and recoveries."""
    return msgspec.structs.replace(event, **fields)
