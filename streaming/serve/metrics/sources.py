"""The last event of each telemetry source, which distinguishes a healthy cluster from missing telemetry."""

import threading
from typing import NamedTuple

from streaming.base.statements import statements_of
from streaming.tables import ReadModel

LOOK_BACK_MS = 6 * 3_600_000
"""The look-back of the first read; sources silent for longer are unknown."""
FORGET_MS = 24 * 3_600_000
"""A source silent for longer is considered removed."""

_SQL = statements_of(__name__)


class SourceInstance(NamedTuple):
    """A hook or a collector, in all its incarnations."""

    cluster: str
    source: str
    instance: str


class LastEvent(NamedTuple):
    """The times of the last event, in epoch milliseconds."""

    time: int
    """By the clock of the source."""
    ingest_time: int
    """By the clock of the transport."""


class Sources:
    """Tracks the sources; each call reads only the rows archived since the previous one."""

    def __init__(self) -> None:
        self._last_events: dict[SourceInstance, LastEvent] = {}
        self._lock = threading.Lock()

    def look(self, model: ReadModel) -> dict[SourceInstance, LastEvent]:
        """Return the last event of each source."""
        with self._lock:
            for row in model.rows(_SQL["last_events"], {"since": self._since(model)}):
                source = SourceInstance(row["cluster"], row["source"], row["instance"])
                before = self._last_events.get(source, LastEvent(0, 0))
                self._last_events[source] = LastEvent(
                    max(before.time, row["time"]), max(before.ingest_time, row["ingest_time"])
                )
            newest = self._newest()
            self._last_events = {
                s: last for s, last in self._last_events.items() if last.ingest_time > newest - FORGET_MS
            }
            return dict(self._last_events)

    def _since(self, model: ReadModel) -> int:
        """Return the time of the newest row read, inclusive: others may have the same timestamp."""
        if self._last_events:
            return self._newest()
        return (model.rows(_SQL["archived"])[0]["time"] or 0) - LOOK_BACK_MS

    def _newest(self) -> int:
        return max((last.ingest_time for last in self._last_events.values()), default=0)
