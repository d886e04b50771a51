"""State of a shard's timeline beside its groups (`timeline` decides with it)."""

from collections.abc import Collection

import msgspec

from rebalance_model.observe.engine.sources import OutOfWait
from rebalance_model.observe.state import ClusterState


class TimelineState(msgspec.Struct):
    """State of a shard's timeline beside its groups; times are epoch milliseconds."""

    now: int = 0
    """The present time of the timeline."""
    ticked: int = 0
    """When any source last ticked: time advances only while a source ticks."""
    known_at: int = 0
    """The log's highest stamp so far."""
    checks: dict[str, int] = {}
    """When each group has a timer due."""
    falls_silent: dict[str, OutOfWait] = {}
    """Sources that are no longer waited for, until their silence is due."""
    clusters: dict[str, ClusterState] = {}
    """The state of each cluster."""
    groups_of: dict[str, dict[str, None]] = {}
    """By source, the groups that it reports."""
    followers: dict[str, int] = {}
    """By collector, how many groups follow it."""
    boots: dict[str, int] = {}
    """By source and broker: when the broker started, as that source last reported."""
    rows_forgotten: int = 0
    """The highest row number of a forgotten cluster: the rows of one that comes back continue above it."""

    def cluster(self, name: str) -> ClusterState:
        """Return a cluster's state; create it on first sight."""
        return self.clusters.setdefault(name, ClusterState(name, rows=self.rows_forgotten))

    def forget_source(self, source: str, kept: Collection[str]) -> None:
        """Forget a source, but not that these groups name it."""
        self.falls_silent.pop(source, None)
        for name in [name for name in self.boots if name.startswith(f"{source} ")]:
            del self.boots[name]
        if kept:
            self.groups_of[source] = dict.fromkeys(kept)
        else:
            self.groups_of.pop(source, None)

    def forget_cluster(self, name: str) -> None:
        """Forget a cluster of which no source is left."""
        self.rows_forgotten = max(self.rows_forgotten, self.clusters.pop(name).rows)
