"""The collector that prometheus-client calls at each scrape."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.registry import Collector

from streaming.base.errors import NotReadyError
from streaming.base.place import tables_of
from streaming.base.settings import Settings
from streaming.serve.metrics.groups import group_families, queue_families
from streaming.serve.metrics.pipeline import Sizes, job_families, telemetry_families
from streaming.serve.metrics.snapshot import Snapshot, Sources, family, read_snapshot
from streaming.serve.store import Store

_LOG = logging.getLogger(__name__)
_FRESH_SECONDS = 5.0
"""The time for which values are reused if there are no new rows."""


class TablesCollector(Collector):
    """Collects the metrics of tables and checkpoints."""

    def __init__(self, store: Store, sources: Sources, settings: Settings) -> None:
        self._store = store
        self._sources = sources
        self._settings = settings
        self._sizes = Sizes(tables_of(settings))
        self._scraping = threading.Lock()
        self._read: tuple[int, float, Snapshot] | None = None
        self._unread: frozenset[str] = frozenset()
        """Why tables could not be read at the last scrape."""

    def collect(self) -> Iterator[Metric]:
        """Read all metrics, those of the tables as soon as they exist; concurrent scrapes wait for each other."""
        with self._scraping:
            with suppress(NotReadyError):
                yield from self._table_families()
            yield from job_families(self._settings.runtime.checkpoints)
            yield self._info()

    def _table_families(self) -> Iterator[Metric]:
        limit = self._settings.metrics.queue_series
        snapshot = self._snapshot(limit)
        yield from group_families(snapshot)
        yield from queue_families(snapshot, limit)
        yield from telemetry_families(snapshot)
        yield from self._sizes.families()
        yield self._readable(snapshot.unread | self._sizes.unread)

    def _snapshot(self, limit: int) -> Snapshot:
        """Read the tables again only if there are new rows or the values may have become stale."""
        version, now = self._store.version, time.monotonic()
        if self._read is None or self._read[0] != version or now - self._read[1] > _FRESH_SECONDS:
            self._read = version, now, read_snapshot(self._store.model(), self._sources, limit)
        return self._read[2]

    def _readable(self, unread: frozenset[str]) -> Metric:
        """Say whether all tables could be read; when one can't, log why."""
        for why in sorted(unread - self._unread):
            _LOG.error("metrics are missing: %s", why)
        self._unread = unread
        return family(
            "rebalance_watch_tables_readable",
            "Whether all tables could be read: 1 or 0. With 0 what is missing has no series, and the log says why.",
            (),
            [((), not unread)],
        )

    def _info(self) -> Metric:
        return family(
            "rebalance_watch_info",
            "1; the labels have the version, and the address of the pages (setting web.url), empty if it is not set.",
            ("version", "url"),
            [((version("rebalance-watch"), self._settings.web.url.rstrip("/")), 1)],
        )


def registry(store: Store, sources: Sources, settings: Settings) -> CollectorRegistry:
    """Create a registry with the metrics of the tables and of this process."""
    made = CollectorRegistry(auto_describe=False)
    made.register(TablesCollector(store, sources, settings))
    ProcessCollector(registry=made)
    return made
