"""Queries of consumer groups and their state."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rebalance_model.entities import in_java_order
from streaming.queries.clients import clients_of_proxies
from streaming.queries.failed_messages import failed_messages
from streaming.queries.group_at import GroupAt, explain_nothing, find_group, instant_of
from streaming.queries.health import HEALTH, rank_sql
from streaming.queries.incidents import incidents_of, of_clusters
from streaming.queries.observed import counts_for_lag
from streaming.queries.present import Freshness, Silence, last_known, present
from streaming.queries.rebalances import rebalances_of
from streaming.queries.results import Coverage, Group, Member, OpenIncidents, Overview
from streaming.queries.without_owner import WithoutOwner, without_owner
from streaming.tables.reader import ReadModel, Row

LAST_REBALANCES = 5
"""The number of rebalances in an overview."""

_GROUPS = f"""
SELECT
    g.*,
    coalesce(q.queues, 0) AS queues,
    coalesce(q.unowned, 0) AS unowned,
    q.lag, coalesce(q.lag_is_at_least, false) AS lag_is_at_least, coalesce(q.lag_unknown, 0) AS lag_unknown,
    coalesce(q.lag_stale, 0) AS lag_stale, q.lag_age_ms, q.owned,
    coalesce(i.critical, 0) AS critical, coalesce(i.warning, 0) AS warning, coalesce(i.info, 0) AS info,
    coalesce(i.closed, 0) AS closed,
    r.last_rebalance
FROM groups_at(from_ms($instant)) g
LEFT JOIN (
    SELECT
        s.cluster, s.group,
        count(*) FILTER (NOT starts_with(s.topic, '%RETRY%')) AS queues,
        count(*) FILTER (s.owner IS NULL AND NOT starts_with(s.topic, '%RETRY%')) AS unowned,
        CAST(sum(p.lag) FILTER (NOT p.lag_is_stale) AS BIGINT) AS lag,
        bool_or(p.lag_is_at_least AND NOT p.lag_is_stale) AS lag_is_at_least,
        count(*) FILTER (p.lag IS NULL OR p.lag_is_stale) AS lag_unknown,
        count(*) FILTER (p.lag_is_stale) AS lag_stale,
        max(p.lag_age_ms) FILTER (NOT p.lag_is_stale) AS lag_age_ms,
        histogram(s.owner) AS owned
    FROM queues_at(from_ms($instant)) s
    LEFT JOIN progress_at(from_ms($now)) p
        ON p.cluster = s.cluster AND p.group = s.group AND p.topic = s.topic AND p.broker = s.broker
        AND p.queue_id = s.queue_id
    WHERE {counts_for_lag("s", "s.group")}
        AND ($cluster IS NULL OR s.cluster = $cluster) AND ($group IS NULL OR s.group = $group)
    GROUP BY s.cluster, s.group
) q ON q.cluster = g.cluster AND q.group = g.group
LEFT JOIN (
    SELECT
        a.cluster, a.group,
        count(*) FILTER (a.resolved_at IS NULL AND a.severity = 'critical') AS critical,
        count(*) FILTER (a.resolved_at IS NULL AND a.severity = 'warning') AS warning,
        count(*) FILTER (a.resolved_at IS NULL AND a.severity = 'info') AS info,
        count(*) FILTER (a.resolved_at IS NOT NULL) AS closed
    FROM incidents_at(from_ms($instant)) a
    WHERE a.cleared_at IS NULL AND NOT a.absorbed
    GROUP BY a.cluster, a.group
) i ON i.cluster = g.cluster AND i.group = g.group
LEFT JOIN (
    SELECT b.cluster, b.group, max(b.start_time) AS last_rebalance
    FROM rebalances b
    WHERE b.time <= from_ms($instant)
    GROUP BY b.cluster, b.group
) r ON r.cluster = g.cluster AND r.group = g.group
WHERE ($cluster IS NULL OR g.cluster = $cluster) AND ($group IS NULL OR g.group = $group)
ORDER BY
    {rank_sql("g.health")},
    critical DESC, warning DESC, g.cluster, g.group
"""  # noqa: S608  parts of ours


class LastGroupState(NamedTuple):
    """The last reported attributes of a group, without its queues and incidents."""

    members: Sequence[str]
    message_model: str
    consume_type: str
    strategy: str | None
    coverage: Coverage
    freshness: Freshness

    @property
    def without_owner(self) -> WithoutOwner:
        """What a queue of the group without a known owner is."""
        sharing = self.coverage.sharing
        return without_owner(message_model=self.message_model, consume_type=self.consume_type, sharing=sharing)


def is_divided(*, message_model: str, consume_type: str, sharing: str) -> bool:
    """Return whether each queue of a group has one owner, so that one without an owner is unassigned.

    Broadcasting clients each read every queue, and popping ones share them; the owners of pull consumers and of clients
    behind a proxy are unknown.

    Args:
        message_model: the message model of the group.
        consume_type: the consume type of the group.
        sharing: `Coverage.sharing` of the group; empty in rows of an earlier release.
    """
    divided = message_model != "BROADCASTING" and consume_type != "CONSUME_ACTIVELY"
    return divided and sharing in {"", "DIVIDED", "MIXED"}


def groups(model: ReadModel, at: int | None = None, cluster: str | None = None) -> list[Group]:
    """List all groups, unhealthy ones first.

    Raises:
        NotFoundError: the cluster is unknown.
        UserError: the instant is before the beginning of history.
    """
    wanted = {"instant": instant_of(at), "cluster": cluster, "group": None}
    found = _read(model, wanted, at)
    if not found:
        explain_nothing(model, cluster, at)
    return sorted((shown for _, shown in found), key=lambda group: HEALTH[group.health].rank)


def overview(model: ReadModel, name: str, cluster: str | None = None, at: int | None = None) -> Overview:
    """Return one group with its members, open incidents and last rebalances.

    Raises:
        UserError: see `find_group`.
    """
    of = find_group(model, name, cluster, at)
    [(row, shown)] = _read(model, of._asdict(), of.at)
    owned = dict(row["owned"] or ())
    clients = in_java_order([*shown.members, *(client for client in owned if client not in shown.members)])
    return Overview(
        group=shown,
        members=tuple(
            Member(client_id=client, queues=owned.get(client, 0), is_member=client in shown.members)
            for client in clients
        ),
        incidents=tuple(incidents_of(model, of, only_open=True)),
        rebalances=tuple(
            one.model_copy(update={"moves": ()}) for one in rebalances_of(model, of, until=at, last=LAST_REBALANCES)
        ),
        failed=tuple(failed_messages(model, of)),
        proxied=clients_of_proxies(model, of, shown.proxied_clients),
    )


def group_of(model: ReadModel, of: GroupAt) -> Group:
    """Return the state of a group."""
    [(_, shown)] = _read(model, of._asdict(), of.at)
    return shown


def last_group_state(model: ReadModel, of: GroupAt) -> LastGroupState:
    """Return the last reported attributes of a group, without reading its queues and incidents."""
    query = """
        SELECT t.members, t.message_model, t.consume_type, t.strategy, t.coverage, t.time
        FROM groups_at(from_ms($instant)) t
        WHERE t.cluster = $cluster AND t.group = $group
    """
    [row] = model.rows(query, of._asdict())
    last = row.pop("time")
    freshness = Silence(model, of.at, [(of.cluster, last)]).of(of.cluster, last)
    return LastGroupState(**row | {"coverage": Coverage.model_validate_json(row["coverage"]), "freshness": freshness})


def _read(model: ReadModel, wanted: Mapping[str, Any], at: int | None) -> list[tuple[Row, Group]]:
    """Return each row with the group that it shows, which is stale or UNKNOWN if too little was heard of it lately."""
    of_cluster = of_clusters(model, wanted["instant"], wanted["cluster"])
    found = [
        (row, _group(row, of_cluster(row["cluster"], row["group"])))
        for row in model.rows(_GROUPS, {**wanted, "now": present(model, at)})
    ]
    silence = Silence(model, at, ((shown.cluster, shown.time) for _, shown in found))
    return [(row, _as_heard(shown, silence.of(shown.cluster, shown.time))) for row, shown in found]


def _as_heard(group: Group, freshness: Freshness) -> Group:
    known: dict[str, object] = {"telemetry_age_ms": freshness.age_ms, "is_stale": freshness.is_stale}
    if freshness.silent_since is not None:
        known |= {"health": "UNKNOWN", "health_reason": last_known(freshness.silent_since, group.health)}
    return group.model_copy(update=known)


def _group(row: Row, of_cluster: Mapping[str, int]) -> Group:
    incidents = OpenIncidents(**{name: row[name] + of_cluster.get(name, 0) for name in OpenIncidents.model_fields})
    known = {name: row[name] for name in Group.model_fields if name in row}
    coverage = Coverage.model_validate_json(row["coverage"])
    model, kind = row["message_model"], row["consume_type"]
    divided = is_divided(message_model=model, consume_type=kind, sharing=coverage.sharing)
    unowned = row["unowned"] if divided and coverage.owners_known else None
    return Group(**known | {"incidents": incidents, "coverage": coverage, "unowned": unowned})
