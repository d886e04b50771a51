"""Metrics of single queues that are not OK; those beyond the limit are combined in one series per group."""

import heapq
from collections import defaultdict
from collections.abc import Iterator

from prometheus_client import Metric

from streaming.queries.health import HEALTH, METRIC
from streaming.queries.results import Incident
from streaming.serve.metrics.family import family
from streaming.serve.metrics.snapshot import Snapshot
from streaming.tables.reader import Row

OTHERS = "others"
"""The ``queue_id`` of the series that combines the further queues of a group."""
_STUCK = ("ORDERED_QUEUE_STUCK", "QUEUE_STALLED")
_LABELS = ("cluster", "consumer_group", "topic", "broker", "queue_id")
_BY_RANK = tuple(METRIC[name] for name in HEALTH)

Labels = tuple[str, ...]


def queue_families(snapshot: Snapshot, limit: int) -> Iterator[Metric]:
    """Yield status, lag and lock age of queues that are not OK, and the duration for which queues are stuck."""
    rows = [(_labels(row), row) for row in snapshot.unwell or ()]
    left_out = sum(row["queues"] for _, row in rows if row["topic"] is None)
    yield family(
        "rocketmq_consumer_queue_status",
        "Status of a queue that is not OK: 0 UNKNOWN, 2 WARN, 3 BAD; for `others` the worst.",
        _LABELS,
        ((labels, _BY_RANK[row["badness"]]) for labels, row in rows),
    )
    yield family(
        "rocketmq_consumer_queue_lag_messages",
        "Lag of a queue that is not OK; for `others` the sum. No series if unknown.",
        _LABELS,
        ((labels, row["lag"]) for labels, row in rows),
    )
    yield family(
        "rocketmq_consumer_queue_lock_age_ms",
        "Time since the owner renewed the lock of a queue that is not OK; for `others` the longest.",
        _LABELS,
        ((labels, row["lock_age_ms"]) for labels, row in rows),
    )
    yield family(
        "rocketmq_consumer_queue_stuck_seconds",
        "Time for which the committed offset of a queue with lag has not advanced; for `others` the longest.",
        _LABELS,
        _stuck(snapshot, limit).items(),
    )
    yield family(
        "rebalance_watch_queues_left_out",
        "Queues that are not OK and have no separate series (setting metrics.queue_series).",
        (),
        [((), left_out if snapshot.unwell is not None else None)],
    )


def _stuck(snapshot: Snapshot, limit: int) -> dict[Labels, float]:
    seconds = {
        (
            incident.cluster,
            incident.group,
            incident.topic or "",
            incident.broker or "",
            str(incident.queue_id),
        ): _stuck_ms(incident, snapshot.last_time) / 1000
        for incident in snapshot.incidents or ()
        if incident.code in _STUCK
    }
    longest = dict(heapq.nlargest(limit, seconds.items(), key=lambda item: (item[1], item[0])))
    others: dict[Labels, float] = defaultdict(float)
    for labels, value in seconds.items():
        if labels not in longest:
            rest = (*labels[:2], "", "", OTHERS)
            others[rest] = max(others[rest], value)
    return longest | others


def _stuck_ms(incident: Incident, last_time: int) -> float:
    """Return the stuck time at the incident's last transition plus the time since then, in milliseconds."""
    waited = incident.evidence.get("stalled_ms")
    return max(0, last_time - incident.changed_at) + (waited if isinstance(waited, int) else 0)


def _labels(row: Row) -> Labels:
    if row["topic"] is None:
        return row["cluster"], row["group"], "", "", OTHERS
    return row["cluster"], row["group"], row["topic"], row["broker"], str(row["queue_id"])
