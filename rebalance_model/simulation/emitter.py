"""Stamps events as a source does: one sequence for each key, and a time that never falls."""

from collections import defaultdict
from collections.abc import Callable
from typing import Literal, TypedDict

from rebalance_model.observe.events import AnyEvent
from rebalance_model.simulation.scheduler import Clock

CLUSTER = "sim"
Sink = Callable[[AnyEvent], None]


class Stamp(TypedDict):
    """The fields that every event has."""

    time: int
    cluster: str
    source: Literal["sim"]
    source_id: str
    seq: int


class Emitter:
    """One incarnation of a source."""

    def __init__(self, instance: str, clock: Clock, sink: Sink) -> None:
        self._clock = clock
        self._source_id = f"{instance}@{clock.now()}"
        self._seq: defaultdict[str, int] = defaultdict(int)
        self.emit = sink

    def stamp(self, group: str = "") -> Stamp:
        """The next event's, to be emitted at once; of a broadcast without a group."""
        self._seq[group] += 1
        return Stamp(
            time=self._clock.now(), cluster=CLUSTER, source="sim", source_id=self._source_id, seq=self._seq[group]
        )
