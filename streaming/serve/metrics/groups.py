"""The metrics of groups, with the names and labels of RocketMQ 5 and of the rules of its dashboard."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from prometheus_client import Metric

from rebalance_model.entities import RETRY_TOPIC_PREFIX
from streaming.queries.health import METRIC
from streaming.queries.results import TelemetryCoverage
from streaming.serve.metrics.family import family
from streaming.serve.metrics.snapshot import GroupSample, Snapshot

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
