"""The metrics of groups, with the names and labels of RocketMQ 5 and of the rules of its dashboard.

Single queues have series if they are not OK; those beyond the limit are combined in one series per group.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator

from prometheus_client import Metric

from rebalance_model.entities import RETRY_TOPIC_PREFIX
from streaming.queries.health import HEALTH, METRIC
from streaming.queries.results import Incident, TelemetryCoverage
from streaming.serve.metrics.snapshot import GroupSample, Snapshot, family
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


_GROUP = ("cluster", "consumer_group")


def group_families(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield health, owners, members and incidents of each group."""
    groups = snapshot.groups or ()
    yield family(
        "rocketmq_consumer_group_status",
        "Health of a consumer group: 0 UNKNOWN, 1 OK, 2 WARN, 3 BAD.",
        _GROUP,
        ((_name(one), METRIC[one.health]) for one in groups),
    )
    yield family(
        "rocketmq_consumer_telemetry_complete",
        "Share, 0 to 1, of the group's brokers and members covered by telemetry.",
        _GROUP,
        ((_name(one), _complete(one.coverage)) for one in groups),
    )
    yield family(
        "rocketmq_consumer_answers_unreadable",
        "Parts of the last answers about a consumer group that can't be read.",
        _GROUP,
        ((_name(one), len(one.coverage.unreadable) + one.coverage.unreadable_more) for one in groups),
    )
    yield family(
        "rebalance_watch_groups_without_series",
        "Consumer groups beyond the limit of series; those that are OK come last by name.",
        (),
        [((), snapshot.groups_left_out if snapshot.groups is not None else None)],
    )
    yield family(
        "rocketmq_consumer_connections",
        "Clients of a consumer group: its members, and the clients of proxies, which no broker lists.",
        _GROUP,
        ((_name(one), len({*one.members, *(one.proxied_clients or ())})) for one in groups),
    )
    yield family(
        "rebalance_watch_proxied_clients",
        "Those of them that only proxies list, or whose heartbeats proxies copy to each other.",
        _GROUP,
        ((_name(one), len(one.proxied_clients or ())) for one in groups),
    )
    yield from _owners(snapshot)
    yield from _lag(snapshot)
    yield from _dead_letters(snapshot)
    yield _rebalances(snapshot)
    yield _incidents(snapshot)


def _owners(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield owner metrics of groups whose queues have one owner, if the owners are known."""
    groups = snapshot.groups or ()
    divided = [one for one in groups if one.divided and one.health != "UNKNOWN" and one.coverage.owners_known]
    unassigned: Counter[tuple[str, str]] = Counter()
    owners: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in snapshot.topics or ():
        if not row["topic"].startswith(RETRY_TOPIC_PREFIX):
            unassigned[row["cluster"], row["group"]] += row["unassigned"]
            owners[row["cluster"], row["group"]].update(row["owners"] or ())
    doubled = Counter((one.cluster, one.group) for one in snapshot.incidents or () if one.code == "QUEUE_DOUBLE_OWNED")
    of_queues = divided if snapshot.topics is not None else []
    yield family(
        "rocketmq_consumer_queues_unassigned",
        "Unassigned queues, without retry queues; no series if unknown.",
        _GROUP,
        ((_name(one), unassigned[_name(one)]) for one in of_queues),
    )
    yield family(
        "rocketmq_consumer_queues_double_owned",
        "Queues that two members consume at the same time; no series if unknown.",
        _GROUP,
        ((_name(one), doubled[_name(one)]) for one in (divided if snapshot.incidents is not None else [])),
    )
    yield family(
        "rocketmq_consumer_idle_clients",
        "Members without queues, not counting retry queues; no series if unknown.",
        _GROUP,
        ((_name(one), len(set(one.members) - owners[_name(one)])) for one in of_queues),
    )


def _lag(snapshot: Snapshot) -> Iterator[Metric]:
    labels = (*_GROUP, "topic", "is_retry")
    named = [
        ((row["cluster"], row["group"], row["topic"], str(row["topic"].startswith(RETRY_TOPIC_PREFIX)).lower()), row)
        for row in snapshot.topics or ()
    ]
    yield family(
        "rocketmq_consumer_lag_messages",
        "Lag in the queues whose lag is known and not stale; no series if there are none.",
        labels,
        ((values, row["lag"]) for values, row in named),
    )
    yield family(
        "rocketmq_consumer_lag_unknown_queues",
        "Queues whose lag is unknown or stale; the lag of their topic is a lower bound.",
        labels,
        ((values, row["lag_unknown"]) for values, row in named),
    )
    yield family(
        "rocketmq_consumer_lag_at_least_queues",
        "Queues whose lag is only a lower bound, by a broker's hook; the lag of their topic is one, too.",
        labels,
        ((values, row["lag_at_least"]) for values, row in named),
    )
    yield family(
        "rocketmq_consumer_waiting_seconds",
        "Waiting time of the next message in the slowest queue; an upper bound if the broker is not polled for it. No "
        "series if unknown or stale.",
        labels,
        ((values, _seconds(row["waiting_ms"])) for values, row in named),
    )


def _dead_letters(snapshot: Snapshot) -> Iterator[Metric]:
    labels = (*_GROUP, "broker")
    named = [((row["cluster"], row["group"], row["broker"]), row) for row in snapshot.dead_letters or ()]
    yield family(
        "rocketmq_consumer_dead_letters_total",
        "Messages that were ever added to the group's dead-letter topic; no series if unknown or stale.",
        labels,
        ((values, row["added"]) for values, row in named),
        kind="counter",
    )
    yield family(
        "rocketmq_consumer_dead_letters_stored_messages",
        "Messages that the group's dead-letter topic still stores; no series if unknown or stale.",
        labels,
        ((values, row["stored"]) for values, row in named),
    )


def _seconds(milliseconds: int | None) -> float | None:
    return milliseconds / 1000 if milliseconds is not None else None


def _rebalances(snapshot: Snapshot) -> Metric:
    return family(
        "rocketmq_consumer_rebalance_times",
        "Settled rebalances by cause. A counter that restarts at midnight UTC: use increase() or rate().",
        (*_GROUP, "cause"),
        (((row["cluster"], row["group"], row["cause"]), row["today"]) for row in snapshot.rebalances or ()),
        kind="unknown",  # a counter, but existing rules use the name, which lacks a counter's suffix
    )


def _incidents(snapshot: Snapshot) -> Metric:
    own = (one for one in snapshot.incidents or () if not one.absorbed)
    counted = Counter((one.cluster, one.group, one.code, one.severity) for one in own)
    return family(
        "rocketmq_consumer_incidents_open",
        "Open incidents with an alert of their own; consumer_group is empty for incidents of the cluster.",
        (*_GROUP, "code", "severity"),
        counted.items(),
    )


def _name(group: GroupSample) -> tuple[str, str]:
    return group.cluster, group.group


def _complete(coverage: TelemetryCoverage) -> float:
    """Return the share of brokers (with a hook or responding) and members (responding) covered by telemetry."""
    covered = max(coverage.hooks, coverage.brokers_answering) + coverage.members_answering
    return covered / (coverage.brokers + coverage.members) if coverage.brokers else 0.0
