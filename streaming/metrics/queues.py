"""Series of single queues, of those that are not well: bounded, and what is beyond the bound is one series a group."""

import heapq
from collections import defaultdict
from collections.abc import Iterator

from prometheus_client import Metric

from streaming.metrics.facts import Facts
from streaming.metrics.family import family
from streaming.metrics.groups import STATUS
from streaming.queries.answers import Incident
from streaming.read_model.reader import Row

OTHERS = "others"
"""The ``queue_id`` of the series in which a group's further queues are summed."""
_STUCK = ("ORDERED_QUEUE_STUCK", "QUEUE_STALLED")
_LABELS = ("cluster", "consumer_group", "topic", "broker", "queue_id")
_BY_BADNESS = (STATUS["BAD"], STATUS["WARN"], STATUS["UNKNOWN"])

Labels = tuple[str, ...]


def queue_families(facts: Facts, limit: int) -> Iterator[Metric]:
    """Status, lag and lock age of queues that are not OK, and how long the stuck ones have been stuck."""
    rows = [(_labels(row), row) for row in facts.unwell]
    yield family(
        "rocketmq_consumer_queue_status",
        "Health of a queue that is not ok: 0 unknown, 2 warning, 3 error; of `others` that of the worst.",
        _LABELS,
        ((labels, _BY_BADNESS[row["badness"]]) for labels, row in rows),
    )
    yield family(
        "rocketmq_consumer_queue_lag_messages",
        "Messages that wait in a queue that is not ok; of `others` the sum. No series where it is not known.",
        _LABELS,
        ((labels, row["lag"]) for labels, row in rows),
    )
    yield family(
        "rocketmq_consumer_queue_lock_age_ms",
        "How long ago the owner last renewed the lock of a queue that is not ok; of `others` the longest.",
        _LABELS,
        ((labels, row["lock_age_ms"]) for labels, row in rows),
    )
    yield family(
        "rocketmq_consumer_queue_stuck_seconds",
        "How long a queue's commit has not advanced though messages wait; of `others` the longest.",
        _LABELS,
        _stuck(facts, limit).items(),
    )
    yield family(
        "rebalance_watch_queues_left_out",
        "Queues that are not ok and have no series of their own (setting metrics.queue_series).",
        (),
        [((), sum(row["queues"] for row in facts.unwell if row["topic"] is None))],
    )


def _stuck(facts: Facts, limit: int) -> dict[Labels, float]:
    seconds = {
        (one.cluster, one.group, one.topic or "", one.broker or "", str(one.queue_id)): _stuck_ms(one, facts.told)
        / 1000
        for one in facts.incidents
        if one.code in _STUCK
    }
    shown = dict(heapq.nlargest(limit, seconds.items(), key=lambda item: (item[1], item[0])))
    others: dict[Labels, float] = defaultdict(float)
    for labels, value in seconds.items():
        if labels not in shown:
            rest = (*labels[:2], "", "", OTHERS)
            others[rest] = max(others[rest], value)
    return shown | others


def _stuck_ms(incident: Incident, told: int) -> float:
    """What it had waited at the incident's last transition, and what the tables tell beyond that."""
    waited = incident.evidence.get("stalled_ms")
    return max(0, told - incident.changed_at) + (waited if isinstance(waited, int) else 0)


def _labels(row: Row) -> Labels:
    if row["topic"] is None:
        return row["cluster"], row["group"], "", "", OTHERS
    return row["cluster"], row["group"], row["topic"], row["broker"], str(row["queue_id"])
