"""The groups' metrics, in the names and labels of RocketMQ 5's own and of what its dashboard's rules ask for."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from prometheus_client import Metric

from rebalance_model.entities import RETRY_TOPIC_PREFIX
from streaming.metrics.facts import Facts, GroupFacts
from streaming.metrics.family import family
from streaming.queries.answers import Coverage
from streaming.read_model.reader import Row

STATUS = {"UNKNOWN": 0, "OK": 1, "WARN": 2, "BAD": 3}
"""Burrow's numbers, 0 being what it can't judge."""
_GROUP = ("cluster", "consumer_group")


def group_families(facts: Facts) -> Iterator[Metric]:
    """Health, owners, members and incidents of each group."""
    divided = [one for one in facts.groups if one.divided and one.health != "UNKNOWN"]
    own = [row for row in facts.topics if not row["topic"].startswith(RETRY_TOPIC_PREFIX)]
    yield family(
        "rocketmq_consumer_group_status",
        "Health of a consumer group: 0 unknown, 1 ok, 2 warning, 3 error.",
        _GROUP,
        ((_name(one), STATUS[one.health]) for one in facts.groups),
    )
    yield family(
        "rocketmq_consumer_telemetry_complete",
        "Which share, 0 to 1, of a group's brokers and members telemetry reaches.",
        _GROUP,
        ((_name(one), _complete(one.coverage)) for one in facts.groups),
    )
    yield family(
        "rocketmq_consumer_connections",
        "Members of a consumer group.",
        _GROUP,
        ((_name(one), len(one.members)) for one in facts.groups),
    )
    yield from _owners(facts, divided, own)
    yield from _lag(facts)
    yield _rebalances(facts)
    yield _incidents(facts)


def _owners(facts: Facts, divided: list[GroupFacts], own: list[Row]) -> Iterator[Metric]:
    """Of groups whose clients divide the queues, and of which it is known how."""
    unowned: Counter[tuple[str, str]] = Counter()
    owners: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in own:
        unowned[row["cluster"], row["group"]] += row["unowned"]
        owners[row["cluster"], row["group"]].update(row["owners"] or ())
    doubled = Counter((one.cluster, one.group) for one in facts.incidents if one.code == "QUEUE_DOUBLE_OWNED")
    yield family(
        "rocketmq_consumer_queues_unassigned",
        "Queues that nobody owns, retry queues left out; no series where that is not known.",
        _GROUP,
        ((_name(one), unowned[_name(one)]) for one in divided),
    )
    yield family(
        "rocketmq_consumer_queues_double_owned",
        "Queues that two members consume at the same time; no series where that is not known.",
        _GROUP,
        ((_name(one), doubled[_name(one)]) for one in divided),
    )
    yield family(
        "rocketmq_consumer_idle_clients",
        "Members that own no queue, retry queues left out; no series where that is not known.",
        _GROUP,
        ((_name(one), len(set(one.members) - owners[_name(one)])) for one in divided),
    )


def _lag(facts: Facts) -> Iterator[Metric]:
    labels = (*_GROUP, "topic", "is_retry")
    named = [
        ((row["cluster"], row["group"], row["topic"], str(row["topic"].startswith(RETRY_TOPIC_PREFIX)).lower()), row)
        for row in facts.topics
    ]
    yield family(
        "rocketmq_consumer_lag_messages",
        "Messages that wait, in the queues whose lag is known and not stale; no series where it is known of none.",
        labels,
        ((values, row["lag"]) for values, row in named),
    )
    yield family(
        "rocketmq_consumer_lag_unknown_queues",
        "Queues whose lag is not known, or stale: the lag of their topic is at least what the other queues have.",
        labels,
        ((values, row["lag_unknown"]) for values, row in named),
    )
    yield family(
        "rocketmq_consumer_waiting_seconds",
        "How long the next message has waited, of the queue where it has waited longest; at most where the broker is "
        "not asked for it. No series where it is not known, or stale.",
        labels,
        ((values, _seconds(row["waiting_ms"])) for values, row in named),
    )


def _seconds(milliseconds: int | None) -> float | None:
    return milliseconds / 1000 if milliseconds is not None else None


def _rebalances(facts: Facts) -> Metric:
    return family(
        "rocketmq_consumer_rebalance_times",
        "Settled rebalances by cause. A counter that begins anew at midnight UTC: ask for increase() or rate().",
        (*_GROUP, "cause"),
        (((row["cluster"], row["group"], row["cause"]), row["today"]) for row in facts.rebalances),
        kind="unknown",  # a counter whose name, which rules of others use, doesn't end as a counter's must
    )


def _incidents(facts: Facts) -> Metric:
    own = (one for one in facts.incidents if one.parent is None)
    counted = Counter((one.cluster, one.group, one.code, one.severity) for one in own)
    return family(
        "rocketmq_consumer_incidents_open",
        "Open incidents that no other explains; of those about the cluster consumer_group is empty.",
        (*_GROUP, "code", "severity"),
        counted.items(),
    )


def _name(group: GroupFacts) -> tuple[str, str]:
    return group.cluster, group.group


def _complete(coverage: Coverage) -> float:
    """A broker tells by its hook or by its answers, a member by its answers alone."""
    told = max(coverage.hooks, coverage.brokers_answering) + coverage.members_answering
    return told / (coverage.brokers + coverage.members) if coverage.brokers else 0.0
