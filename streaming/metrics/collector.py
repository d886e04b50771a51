"""The collector that prometheus-client asks at each scrape."""

import threading
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.registry import Collector

from streaming.metrics.facts import Facts, facts
from streaming.metrics.groups import group_families
from streaming.metrics.pipeline import Sizes, job_families, telemetry_families
from streaming.metrics.queues import queue_families
from streaming.metrics.sources import Sources
from streaming.settings import Settings
from streaming.web.store import Store

_FRESH_SECONDS = 5.0
"""For so long what was read is shown again where no row has come."""


class TablesCollector(Collector):
    """Everything that is read from tables and checkpoints."""

    def __init__(self, store: Store, sources: Sources, settings: Settings) -> None:
        self._store = store
        self._sources = sources
        self._settings = settings
        self._sizes = Sizes(settings.runtime.tables)
        self._scraping = threading.Lock()
        self._read: tuple[int, float, Facts] | None = None

    def collect(self) -> Iterator[Metric]:
        """Read it now; one scrape after another."""
        limit = self._settings.metrics.queue_series
        with self._scraping:
            found = self._facts(limit)
            yield from group_families(found)
            yield from queue_families(found, limit)
            yield from telemetry_families(found)
            yield from self._sizes.families()
            yield from job_families(self._settings.runtime.checkpoints)

    def _facts(self, limit: int) -> Facts:
        """Read again only where there are new rows, or what was read may have become stale."""
        version, now = self._store.version, time.monotonic()
        if self._read is None or self._read[0] != version or now - self._read[1] > _FRESH_SECONDS:
            self._read = version, now, self._store.ask_here(facts, self._sources, limit)
        return self._read[2]


def registry(store: Store, sources: Sources, settings: Settings) -> CollectorRegistry:
    """The tables' metrics, and this process's own."""
    made = CollectorRegistry(auto_describe=False)
    made.register(TablesCollector(store, sources, settings))
    ProcessCollector(registry=made)
    return made
