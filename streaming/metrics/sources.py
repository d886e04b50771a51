"""When each source of telemetry was last heard: what tells that nothing is wrong from that nothing is told."""

import threading
from typing import NamedTuple

from streaming.read_model import ReadModel

LOOK_BACK_MS = 6 * 3_600_000
"""How far back the first look goes; a source that was silent for longer before that is not known."""
FORGET_MS = 24 * 3_600_000
"""A source that was silent for so long is gone: a broker or collector that was taken away."""

_ARCHIVED = "SELECT max(q.time) AS time FROM quality_results q"
"""Each batch of the archive leaves its latest ingest time there: a small table."""
_HEARD = """
SELECT
    e.cluster, e.source, regexp_replace(e.source_id, '@[0-9]+$', '') AS instance,
    max(e.time) AS time, max(e.ingest_time) AS ingest_time
FROM telemetry e
WHERE e.ingest_time >= $since
GROUP BY ALL
"""


class Source(NamedTuple):
    """A hook or a collector, whichever incarnation of it."""

    cluster: str
    source: str
    instance: str


class Heard(NamedTuple):
    """When it was last heard, in epoch milliseconds."""

    time: int
    """By its own clock."""
    ingest_time: int
    """By the transport's."""


class Sources:
    """Remembers what it has seen: each look reads only what was archived since the one before."""

    def __init__(self) -> None:
        self._heard: dict[Source, Heard] = {}
        self._lock = threading.Lock()

    def look(self, model: ReadModel) -> dict[Source, Heard]:
        """When each source was last heard."""
        with self._lock:
            for row in model.rows(_HEARD, {"since": self._since(model)}):
                source = Source(row["cluster"], row["source"], row["instance"])
                before = self._heard.get(source, Heard(0, 0))
                self._heard[source] = Heard(max(before.time, row["time"]), max(before.ingest_time, row["ingest_time"]))
            newest = self._newest()
            self._heard = {s: heard for s, heard in self._heard.items() if heard.ingest_time > newest - FORGET_MS}
            return dict(self._heard)

    def _since(self, model: ReadModel) -> int:
        """The newest row that was seen, again: others may have come with the same stamp."""
        if self._heard:
            return self._newest()
        return (model.rows(_ARCHIVED)[0]["time"] or 0) - LOOK_BACK_MS

    def _newest(self) -> int:
        return max((heard.ingest_time for heard in self._heard.values()), default=0)
