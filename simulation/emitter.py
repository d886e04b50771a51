"""Stamp events as a source does: one sequence for each key, and a time that falls only where its clock was set back."""

from collections import defaultdict
from collections.abc import Callable
from typing import Literal, TypedDict

from rebalance_model.observe.events import AnyEvent, ClockStep
from simulation.scheduler import MS, Clock

CLUSTER = "sim"
Sink = Callable[[AnyEvent], None]


class Stamp(TypedDict):
    """The fields of every event."""

    time: int
    cluster: str
    broker: str
    source: Literal["sim"]
    source_id: str
    seq: int


class GroupStamp(Stamp):
    """The fields of every event of a group."""

    group: str


class SimulatedEmitter:
    """One incarnation of a source; a stamped event must be emitted before the next stamp."""

    def __init__(self, instance: str, clock: Clock, sink: Sink) -> None:
        self._clock, self._offset = clock, clock.offset
        self.source_id = f"{instance}@{clock.now()}"
        self._seq: defaultdict[str, int] = defaultdict(int)
        self.emit = sink

    def stamp(self, broker: str = "") -> Stamp:
        """Return the stamp of a broadcast."""
        self.follow_clock(broker)
        return Stamp(
            time=self._clock.now(),
            cluster=CLUSTER,
            broker=broker,
            source="sim",
            source_id=self.source_id,
            seq=self._next(""),
        )

    def group_stamp(self, group: str, broker: str = "") -> GroupStamp:
        """Return the stamp of a group's event."""
        self.follow_clock(broker)
        return GroupStamp(
            time=self._clock.now(),
            cluster=CLUSTER,
            broker=broker,
            source="sim",
            source_id=self.source_id,
            seq=self._next(group),
            group=group,
        )

    def follow_clock(self, broker: str = "") -> None:
        """Report that the clock was set since the last event, if it was."""
        step, self._offset = (self._clock.offset - self._offset) // MS, self._clock.offset
        if step:
            self.emit(ClockStep(**self.stamp(broker), step=step))

    def _next(self, key: str) -> int:
        self._seq[key] = number = self._seq[key] + 1
        return number
