"""Queries of open and past incidents."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.rules import broker_unreachable, revive_behind
from rebalance_model.observe.rules.registry import CODES
from rebalance_model.observe.step import PROXY_UNREACHABLE
from streaming.base.nearest import one_of
from streaming.base.statements import statements_of
from streaming.queries.group_at import GroupAt, explain_nothing, instant_of, only_one
from streaming.queries.results import Incident
from streaming.queries.roots import EXPLAINING, folded, with_parents
from streaming.queries.rule_text import with_headline
from streaming.tables.reader import ReadModel, Row

_SQL = statements_of(__name__)

_ANY = {
    "code": None, "severity": None, "only_open": False, "only_resolved": False, "only_held": False, "since": 0,
    "last": INT64_MAX,
}  # fmt: skip

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

    The incidents of a group include those of the cluster that affect it. Without ``unfold``, only the roots are listed,
    see `roots.folded`. Only the first ``last`` are read.

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
        "only_held": False,
        "since": since,
        "instant": instant_of(at),
        "last": INT64_MAX if last is None else last,
    }
    listed = _read(model, filters)
    if not listed:
        explain_nothing(model, cluster, at, group)
    return listed if unfold else folded(listed)


def group_incidents(
    model: ReadModel, group_at: GroupAt, *, only_open: bool = False, since: int = 0
) -> list[Incident]:  # fmt: skip
    """List the incidents of a group, and those of its cluster that affect it."""
    filters = {**_ANY, **group_at._asdict(), "since": since}
    if not only_open:
        return _read(model, filters)
    return _listed(model, [row for row in _held(model, **group_at._asdict()) if row["resolved_at"] is None], filters)


def _held(model: ReadModel, cluster: str | None, group: str | None, instant: int) -> list[Row]:
    """Return the rows of incidents whose condition holds: open ones, and those that a person has closed."""
    of_group = {"cluster": cluster, "group": group, "instant": instant}
    return model.rows_once(_SQL["incidents"], {**_ANY, **of_group, "only_held": True})


def unreachable_brokers(model: ReadModel, group_at: GroupAt) -> dict[str, int]:
    """Return the brokers of a group's cluster that do not answer, and since when, epoch milliseconds."""
    rows = [row for row in _held(model, **group_at._asdict()) if row["code"] == broker_unreachable.RULE.code]
    silences = [(row, json.loads(row["evidence"]).get("silent_ms")) for row in rows]
    return {row["subject"]: row["changed_at"] - silent_ms for row, silent_ms in silences if silent_ms is not None}


def count_of_roots(
    model: ReadModel, instant: int, cluster: str | None, group: str | None
) -> Callable[[str, str], Counter[str]]:
    """Return a function that counts by severity the roots of a group's open incidents.

    They are those that `incidents` lists of the group, with those of its cluster: of a broker that has queues of the
    group, and of what all groups depend on. Those that a person has closed while their condition holds are ``closed``.
    """
    listed = [incident_from_row(row) for row in _held(model, cluster, group, instant)]
    listed = with_parents(listed, [one for one in listed if one.resolved_at is None])
    of_cluster, of_group = [], defaultdict(list)
    for incident in listed:
        of_group[incident.cluster, incident.group].append(incident)
        of_cluster += [] if incident.group else [incident]
    queues: set[tuple[str, str, str]] = set()
    if of_cluster:
        places = model.rows(_SQL["brokers_of_groups"], {"instant": instant, "cluster": cluster})
        queues = {(place["cluster"], place["group"], place["broker"]) for place in places}
    brokers = {(of_cluster, broker) for of_cluster, _, broker in queues}
    popping = _popping(model, of_cluster, instant)

    def count(cluster: str, group: str) -> Counter[str]:
        affecting = [
            incident
            for incident in of_cluster
            if incident.cluster == cluster
            and (incident.code not in _OF_POPPING or (cluster, group) in popping)
            and ((cluster, incident.subject) not in brokers or (cluster, group, incident.subject) in queues)
        ]
        mine = [*of_group[cluster, group], *affecting]
        roots: Counter[str] = Counter(one.severity for one in folded(i for i in mine if i.resolved_at is None))
        roots["closed"] = sum(one.resolved_at is not None and not one.absorbed for one in mine)
        return roots

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
    return incident_with_children(model, incident_id)[0]


def incident_with_children(model: ReadModel, incident_id: str) -> tuple[Incident, list[Incident]]:
    """Return one incident, as `find_incident`, and those whose rows name it as their parent."""
    ids = model.rows(_SQL["ids"], {"id": incident_id})
    asked = only_one(ids, incident_id, "incident", "rebalance-watch incident list --all")["incident_id"]
    family = [incident_from_row(row) for row in model.rows(_SQL["family"], {"id": asked})]
    children = [one for one in family if one.incident_id != asked]
    return next(one for one in family if one.incident_id == asked), children


def incidents_beside(model: ReadModel, incident: Incident) -> list[Incident]:
    """List what was open while an incident was, of its group and cluster, with their parents."""
    if incident.group:
        return group_incidents(model, GroupAt(incident.cluster, incident.group, INT64_MAX), since=incident.opened_at)
    return incidents(model, cluster=incident.cluster, since=incident.opened_at)


def transitions_of(model: ReadModel, incident_id: str) -> list[Row]:
    """Return the rows of one incident's transitions, oldest first."""
    return model.rows(_SQL["transitions"], {"id": incident_id})


def _read(model: ReadModel, filters: Mapping[str, object]) -> list[Incident]:
    return _listed(model, model.rows(_SQL["incidents"], filters), filters)


def _listed(model: ReadModel, rows: list[Row], filters: Mapping[str, object]) -> list[Incident]:
    """Return the incidents of rows, without those of the cluster that do not affect the group, with their parents."""
    if filters["group"] is not None and any(not row["group"] for row in rows):
        group_at = {"group": filters["group"], "instant": filters["instant"]}
        places = model.rows(_SQL["brokers_of_group"], group_at)
        brokers = {(place["cluster"], place["broker"]): place["of_group"] for place in places}
        rows = [row for row in rows if row["group"] or brokers.get((row["cluster"], row["subject"]), True)]
        popping, group = _popping(model, rows, filters["instant"]), filters["group"]
        rows = [row for row in rows if row["code"] not in _OF_POPPING or (row["cluster"], group) in popping]
    return _with_parents(model, [incident_from_row(row) for row in rows], filters)


def _with_parents(model: ReadModel, listed: list[Incident], filters: Mapping[str, object]) -> list[Incident]:
    """Return incidents with their parents, which the filters may have left out."""
    if all(one.parent is not None for one in listed):
        return listed
    all_read = all(filters[name] is None for name in ("code", "severity")) and not filters["only_resolved"]
    if all_read and filters["last"] == INT64_MAX:
        return with_parents(listed, listed)
    begin = min(one.opened_at for one in listed)
    parameters = {name: filters[name] for name in ("cluster", "instant")} | {"since": begin, "codes": [*EXPLAINING]}
    return with_parents(listed, map(incident_from_row, model.rows(_SQL["explaining"], parameters)))


def _popping(model: ReadModel, incidents: Iterable[Row | Incident], instant: object) -> set[tuple[str, str]]:
    """Return the groups that pop, by cluster and name, if one of the incidents concerns only these."""
    codes = (one.code if isinstance(one, Incident) else one["code"] for one in incidents)
    if _OF_POPPING.isdisjoint(codes):
        return set()
    return {(row["cluster"], row["group"]) for row in model.rows(_SQL["popping_groups"], {"instant": instant})}


def incident_from_row(row: Row) -> Incident:
    """Convert a row of `incidents_at`."""
    return with_headline(Incident(**row | {"evidence": json.loads(row["evidence"])}))
