"""The groups, and how they are."""

import json

from streaming.queries.answers import Coverage, Group, OpenIncidents
from streaming.queries.subject import Subject, instant_of, subject
from streaming.read_model.reader import ReadModel, Row

_GROUPS = """
SELECT
    g.*,
    coalesce(q.queues, 0) AS queues, coalesce(q.unowned, 0) AS unowned,
    q.lag, coalesce(q.lag_unknown, 0) AS lag_unknown,
    coalesce(i.critical, 0) AS critical, coalesce(i.warning, 0) AS warning, coalesce(i.info, 0) AS info,
    r.last_rebalance
FROM groups_at($instant) g
LEFT JOIN (
    SELECT
        s.cluster, s.group,
        count(*) AS queues,
        count(*) FILTER (s.owner IS NULL) AS unowned,
        CAST(sum(s.lag) AS BIGINT) AS lag,
        count(*) FILTER (s.lag IS NULL) AS lag_unknown
    FROM queues_at($instant) s
    WHERE NOT starts_with(s.topic, '%RETRY%')
    GROUP BY s.cluster, s.group
) q ON q.cluster = g.cluster AND q.group = g.group
LEFT JOIN (
    SELECT
        a.cluster, a.group,
        count(*) FILTER (a.severity = 'critical') AS critical,
        count(*) FILTER (a.severity = 'warning') AS warning,
        count(*) FILTER (a.severity = 'info') AS info
    FROM incidents_at($instant) a
    WHERE a.resolved_at IS NULL AND a.parent IS NULL
    GROUP BY a.cluster, a.group
) i ON i.cluster = g.cluster AND i.group = g.group
LEFT JOIN (
    SELECT b.cluster, b.group, max(b.start_time) AS last_rebalance
    FROM rebalances b
    WHERE b.time <= $instant
    GROUP BY b.cluster, b.group
) r ON r.cluster = g.cluster AND r.group = g.group
WHERE ($cluster IS NULL OR g.cluster = $cluster) AND ($group IS NULL OR g.group = $group)
ORDER BY
    CASE g.health WHEN 'BAD' THEN 0 WHEN 'WARN' THEN 1 WHEN 'UNKNOWN' THEN 2 ELSE 3 END,
    critical DESC, warning DESC, g.cluster, g.group
"""


def groups(model: ReadModel, at: int | None = None, cluster: str | None = None) -> list[Group]:
    """Every group, the unhealthy ones first."""
    wanted = {"instant": instant_of(at), "cluster": cluster, "group": None}
    return [_group(row) for row in model.rows(_GROUPS, wanted)]


def group(model: ReadModel, name: str, cluster: str | None = None, at: int | None = None) -> Group:
    """One group.

    Raises:
        UserError: see `subject`.
    """
    return group_of(model, subject(model, name, cluster, at))


def group_of(model: ReadModel, of: Subject) -> Group:
    """The group that was found."""
    [row] = model.rows(_GROUPS, {"instant": of.instant, "cluster": of.cluster, "group": of.group})
    return _group(row)


def _group(row: Row) -> Group:
    incidents = OpenIncidents(critical=row["critical"], warning=row["warning"], info=row["info"])
    known = {name: row[name] for name in Group.model_fields if name in row}
    return Group(**known | {"incidents": incidents, "coverage": Coverage(**json.loads(row["coverage"]))})
