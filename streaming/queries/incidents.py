"""Queries of open and past incidents."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.rules import revive_behind
from rebalance_model.observe.rules.registry import CODES
from rebalance_model.observe.step import PROXY_UNREACHABLE
from streaming.base.nearest import one_of
from streaming.base.statements import statements_of
from streaming.queries.group_at import GroupAt, explain_nothing, instant_of, only_one
from streaming.queries.results import Incident
from streaming.tables.reader import ReadModel, Row

_SQL = statements_of(__name__)


_OF_POPPING = {revive_behind.CODE, PROXY_UNREACHABLE}
"""Incidents of brokers and proxies that concern only groups that pop."""


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
        InvalidValueError: there is no such code.
        NotFoundError: the cluster or group is unknown.
        UserError: the instant is before the beginning of history.
    """
    if code is not None:  # perhaps of a release that had another rule
        code = one_of("code", code, sorted({*CODES, *(known for _, known in kinds_of_incidents(model))}))
    filters = {
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
    listed = _read(model, filters)
    if not listed:
        explain_nothing(model, cluster, at, group)
    return listed if unfold else folded(listed)


def folded(listed: Sequence[Incident]) -> list[Incident]:
    """Remove the incidents without an alert of their own that another one in the list explains.

    One that is open stays, unless the other one is open, too: what makes a group WARN or BAD is never hidden.
    """
    ids = {incident.incident_id for incident in listed}
    still_open = {incident.incident_id for incident in listed if incident.resolved_at is None}
    return [
        incident
        for incident in listed
        if not incident.absorbed or incident.parent not in (ids if incident.resolved_at is not None else still_open)
    ]


def group_incidents(
    model: ReadModel, group_at: GroupAt, *, only_open: bool = False, since: int = 0
) -> list[Incident]:  # fmt: skip
    """List the incidents of a group, and those of its cluster that affect it."""
    anything = {"code": None, "severity": None, "only_resolved": False, "last": INT64_MAX}
    return _read(model, {**group_at._asdict(), **anything, "only_open": only_open, "since": since})


def cluster_incidents(model: ReadModel, instant: int, cluster: str | None) -> Callable[[str, str], Counter[str]]:
    """Return a function that counts by severity the open incidents of a group's cluster that affect the group.

    Those that a person has closed while their condition holds are counted as ``closed``.

    As in `group_incidents`: those of a broker that has queues of the group, and those of what all groups depend on.
    Those that another incident absorbs are not counted.
    """
    rows = model.rows(_SQL["incidents_of_clusters"], {"instant": instant, "cluster": cluster})
    queues: set[tuple[str, str, str]] = set()
    if rows:
        places = model.rows(_SQL["brokers_of_groups"], {"instant": instant, "cluster": cluster})
        queues = {(place["cluster"], place["group"], place["broker"]) for place in places}
    brokers = {(of_cluster, broker) for of_cluster, _, broker in queues}
    popping = _popping(model, rows, instant)

    def count(cluster: str, group: str) -> Counter[str]:
        return Counter(
            row["counts_as"]
            for row in rows
            if row["cluster"] == cluster
            and (row["code"] not in _OF_POPPING or (cluster, group) in popping)
            and ((cluster, row["subject"]) not in brokers or (cluster, group, row["subject"]) in queues)
        )

    return count


def kinds_of_incidents(model: ReadModel) -> list[tuple[str, str]]:
    """Return the groups (empty: the cluster) and codes of all incidents, sorted."""
    rows = model.rows(_SQL["kinds"])
    return [(row["group"], row["code"]) for row in rows]


def find_incident(model: ReadModel, incident_id: str) -> Incident:
    """Return one incident by its id or a unique prefix of it.

    Raises:
        NotFoundError: there is no such incident.
        UserError: the prefix is not unique.
    """
    rows = model.rows(_SQL["by_id"], {"id": incident_id})
    return incident_from_row(only_one(rows, incident_id, "incident", "rebalance-watch incident list --all"))


def transitions_of(model: ReadModel, incident_id: str) -> list[Row]:
    """Return the rows of one incident's transitions, oldest first."""
    return model.rows(_SQL["transitions"], {"id": incident_id})


def _read(model: ReadModel, filters: Mapping[str, object]) -> list[Incident]:
    rows = model.rows(_SQL["incidents"], filters)
    if filters["group"] is not None and any(not row["group"] for row in rows):
        group_at = {"group": filters["group"], "instant": filters["instant"]}
        places = model.rows(_SQL["brokers_of_group"], group_at)
        brokers = {(place["cluster"], place["broker"]): place["of_group"] for place in places}
        rows = [row for row in rows if row["group"] or brokers.get((row["cluster"], row["subject"]), True)]
        popping, group = _popping(model, rows, filters["instant"]), filters["group"]
        rows = [row for row in rows if row["code"] not in _OF_POPPING or (row["cluster"], group) in popping]
    return [incident_from_row(row) for row in rows]


def _popping(model: ReadModel, incidents: Sequence[Row], instant: object) -> set[tuple[str, str]]:
    """Return the groups that pop, by cluster and name, if one of the incidents concerns only these."""
    if all(row["code"] not in _OF_POPPING for row in incidents):
        return set()
    return {(row["cluster"], row["group"]) for row in model.rows(_SQL["popping_groups"], {"instant": instant})}


def incident_from_row(row: Row) -> Incident:
    """Convert a row of `incidents_at`."""
    return Incident(**row | {"evidence": json.loads(row["evidence"])})
