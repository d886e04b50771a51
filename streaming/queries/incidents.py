"""Queries of open and past incidents."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.rules import revive_behind
from streaming.queries.group_at import GroupAt, explain_nothing, instant_of, only_one
from streaming.queries.results import Incident
from streaming.tables.reader import ReadModel, Row

_INCIDENTS = """
SELECT i.*, coalesce(c.consequences, 0) AS consequences
FROM incidents_at(from_ms($instant)) i
LEFT JOIN (
    SELECT p.parent, count(*) AS consequences
    FROM incidents_at(from_ms($instant)) p
    WHERE p.parent IS NOT NULL
    GROUP BY p.parent
) c ON c.parent = i.incident_id
WHERE ($cluster IS NULL OR i.cluster = $cluster) AND ($group IS NULL OR i.group IN ($group, ''))
    AND ($code IS NULL OR i.code = $code) AND ($severity IS NULL OR i.severity = $severity)
    AND (NOT $only_open OR i.resolved_at IS NULL) AND (NOT $only_resolved OR i.resolved_at IS NOT NULL)
    AND (i.resolved_at IS NULL OR i.resolved_at >= from_ms($since))
ORDER BY (i.resolved_at IS NULL) DESC, i.opened_at DESC, i.code, i.subject, i.incident_id
LIMIT $last
"""

_BROKERS = """
SELECT q.cluster, q.broker, bool_or(q.group = $group) AS of_group
FROM queues_at(from_ms($instant)) q
GROUP BY q.cluster, q.broker
"""

_OF_POPPING = revive_behind.CODE
"""An incident of a broker that concerns only groups that pop."""
_OF_CLUSTERS = """
SELECT i.cluster, i.subject, i.code, CASE WHEN i.resolved_at IS NULL THEN i.severity ELSE 'closed' END AS counts_as
FROM incidents_at(from_ms($instant)) i
WHERE i.group = '' AND i.cleared_at IS NULL AND NOT i.absorbed AND ($cluster IS NULL OR i.cluster = $cluster)
"""
_POPPING = """
SELECT g.cluster, g.group FROM groups_at(from_ms($instant)) g
WHERE json_extract_string(g.coverage, '$.sharing') IN ('POPPED', 'MIXED', 'PROXIED', 'UNLISTED')
"""
_BROKERS_OF_GROUPS = """
SELECT DISTINCT q.cluster, q.group, q.broker FROM queues_at(from_ms($instant)) q
WHERE $cluster IS NULL OR q.cluster = $cluster
"""


def incidents(  # noqa: PLR0913  filters
    model: ReadModel,
    *,
    cluster: str | None = None,
    group: str | None = None,
    code: str | None = None,
    severity: str | None = None,
    only_open: bool = False,
    only_resolved: bool = False,
    since: int = 0,
    at: int | None = None,
    unfold: bool = True,
    last: int | None = None,
) -> list[Incident]:
    """List incidents that were open at some time from ``since`` on: open ones first, then the newest.

    The incidents of a group include those of the cluster that affect it. Without ``unfold``, an incident is omitted if
    the one that explains it is in the list. Only the first ``last`` are read.

    Raises:
        NotFoundError: the cluster or group is unknown.
        UserError: the instant is before the beginning of history.
    """
    wanted = {
        "cluster": cluster,
        "group": group,
        "code": code,
        "severity": severity,
        "only_open": only_open,
        "only_resolved": only_resolved,
        "since": since,
        "instant": instant_of(at),
        "last": INT64_MAX if last is None else last,
    }
    found = _found(model, wanted)
    if not found:
        explain_nothing(model, cluster, at, group)
    return found if unfold else folded(found)


def folded(found: Sequence[Incident]) -> list[Incident]:
    """Remove the incidents without an alert of their own that another one in the list explains."""
    listed = {one.incident_id for one in found}
    return [one for one in found if not one.absorbed or one.parent not in listed]


def incidents_of(model: ReadModel, of: GroupAt, *, only_open: bool = False, since: int = 0) -> list[Incident]:
    """List the incidents of a group, and those of its cluster that affect it."""
    anything = {"code": None, "severity": None, "only_resolved": False, "last": INT64_MAX}
    return _found(model, {**of._asdict(), **anything, "only_open": only_open, "since": since})


def of_clusters(model: ReadModel, instant: int, cluster: str | None) -> Callable[[str, str], Counter[str]]:
    """Return a function that counts by severity the open incidents of a group's cluster that affect the group.

    Those that a person has closed while their condition holds are counted as ``closed``.

    As in `incidents_of`: those of a broker that has queues of the group, and those of what all groups depend on. Those
    that another incident absorbs are not counted.
    """
    found = model.rows(_OF_CLUSTERS, {"instant": instant, "cluster": cluster})
    of_groups: set[tuple[str, str, str]] = set()
    if found:
        rows = model.rows(_BROKERS_OF_GROUPS, {"instant": instant, "cluster": cluster})
        of_groups = {(row["cluster"], row["group"], row["broker"]) for row in rows}
    brokers = {(of, broker) for of, _, broker in of_groups}
    popping = _popping(model, found, instant)

    def count(cluster: str, group: str) -> Counter[str]:
        return Counter(
            row["counts_as"]
            for row in found
            if row["cluster"] == cluster
            and (row["code"] != _OF_POPPING or (cluster, group) in popping)
            and ((cluster, row["subject"]) not in brokers or (cluster, group, row["subject"]) in of_groups)
        )

    return count


def kinds_of_incidents(model: ReadModel) -> list[tuple[str, str]]:
    """Return the groups (empty: the cluster) and codes of all incidents, sorted."""
    rows = model.rows("SELECT DISTINCT a.group, a.code FROM anomalies a ORDER BY a.group, a.code")
    return [(row["group"], row["code"]) for row in rows]


def incident_of(model: ReadModel, incident_id: str) -> Incident:
    """Return one incident by its id or a unique prefix of it.

    Raises:
        NotFoundError: there is no such incident.
        UserError: the prefix is not unique.
    """
    found = model.rows("SELECT i.* FROM incidents i WHERE starts_with(i.incident_id, $id)", {"id": incident_id})
    return incident_from_row(only_one(found, incident_id, "incident", "rebalance-watch incident list --all"))


def transitions_of(model: ReadModel, incident_id: str) -> list[Row]:
    """Return the rows of one incident's transitions, oldest first."""
    return model.rows("SELECT * FROM anomalies a WHERE a.incident_id = ? ORDER BY a.time, a.seq", [incident_id])


def _found(model: ReadModel, wanted: Mapping[str, object]) -> list[Incident]:
    rows = model.rows(_INCIDENTS, wanted)
    if wanted["group"] is not None and any(not row["group"] for row in rows):
        asked = {"group": wanted["group"], "instant": wanted["instant"]}
        brokers = {(row["cluster"], row["broker"]): row["of_group"] for row in model.rows(_BROKERS, asked)}
        rows = [row for row in rows if row["group"] or brokers.get((row["cluster"], row["subject"]), True)]
        popping, group = _popping(model, rows, wanted["instant"]), wanted["group"]
        rows = [row for row in rows if row["code"] != _OF_POPPING or (row["cluster"], group) in popping]
    return [incident_from_row(row) for row in rows]


def _popping(model: ReadModel, found: Sequence[Row], instant: object) -> set[tuple[str, str]]:
    """Return the groups that pop, by cluster and name, if one of the incidents concerns only these."""
    if all(row["code"] != _OF_POPPING for row in found):
        return set()
    return {(row["cluster"], row["group"]) for row in model.rows(_POPPING, {"instant": instant})}


def incident_from_row(row: Row) -> Incident:
    """Convert a row of `incidents_at`."""
    return Incident(**with_main_cause(row) | {"evidence": json.loads(row["evidence"])})


def with_main_cause(row: Row) -> Row:
    """Return a row or transition of an incident; one of an earlier release gets its latest cause as its main cause."""
    if row["main_explanation"]:
        return row
    latest = {"main_cause": row["sub_cause"], "main_client_id": row["client_id"]}
    return row | latest | {"main_explanation": row["explanation"]}
