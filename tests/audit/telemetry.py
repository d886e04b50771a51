"""Raw telemetry: JSON lines, each event once, in the order of the one timeline.

An answer was valid at some time between `asked` and `answered`: its time is `answered`, or that of its emission if it
comes from an older collector, which did not report `answered`.
"""

import gzip
import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

Queue = tuple[str, str, int]
"""Topic, broker, queue id."""
Place = tuple[str, str]
"""Cluster and group."""
Value = TypeVar("Value")

BROADCASTS = ("TICK", "BROKER_STATUS", "PROXY_STATUS", "TELEMETRY_LOST", "CLOCK_SEEN", "CLOCK_STEP")


@dataclass(frozen=True, slots=True)
class Event:
    """One event with the time that it has on the timeline."""

    time: int
    type: str
    source: str
    source_id: str
    seq: int
    key: str
    fields: dict[str, Any]

    @property
    def name(self) -> str:
        """The event's name in the column `cause` of derived rows."""
        return f"{self.source_id}|{self.key}|{self.seq}"

    @property
    def place(self) -> Place:
        """Its cluster and group; the group of a broadcast is empty."""
        return self.fields["cluster"], self.fields.get("group", "")

    def __getitem__(self, field: str) -> Any:
        return self.fields[field]

    def get(self, field: str, default: Any = None) -> Any:
        """Return an optional field."""
        return self.fields.get(field, default)


class Observed(NamedTuple, Generic[Value]):
    """A value, and the time at which it was observed."""

    time: int
    value: Value


class Series(Generic[Value]):
    """Observations in ascending order of time."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._values: list[Value] = []

    def add(self, time: int, value: Value) -> None:
        """Append an observation; of two at one instant the one added last is valid."""
        assert not self._times or time >= self._times[-1], "observations come in order of time"
        self._times.append(time)
        self._values.append(value)

    def at(self, instant: int) -> Observed[Value] | None:
        """Return the last observation not after the instant."""
        index = bisect_right(self._times, instant) - 1
        return Observed(self._times[index], self._values[index]) if index >= 0 else None

    def within(self, since: int, until: int) -> list[Value]:
        """Return the values that were valid at some time of a period: that at its beginning, and every later one."""
        return self._values[max(0, bisect_right(self._times, since) - 1) : bisect_right(self._times, until)]

    def __iter__(self) -> Iterator[Observed[Value]]:
        return (Observed(*pair) for pair in zip(self._times, self._values, strict=True))


def read(path: Path) -> list[Event]:
    """Read a recording's events, each once, in order of time."""
    seen, events = set(), []
    for line in lines(path):
        event = _event(json.loads(line))
        if event.name not in seen:
            seen.add(event.name)
            events.append(event)
    return sorted(events, key=lambda event: (event.time, event.source_id, event.seq))


def queue_of(fields: dict[str, Any]) -> Queue:
    """Return the queue named by a part of an event."""
    return fields["topic"], fields["broker"], fields["queue_id"]


def lines(path: Path) -> list[bytes]:
    """Read a recording's lines, compressed or not."""
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines(keepends=True)


def _event(fields: dict[str, Any]) -> Event:
    kind = fields["type"]
    key = "" if kind in BROADCASTS else f"{fields['cluster']}/{fields['group']}"
    time = fields.get("answered") or fields["time"]
    return Event(time, kind, fields["source"], fields["source_id"], fields["seq"], key, fields)
