"""What is wrong, and was."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime

from rebalance_model.entities import INT64_MAX
from streaming.queries.answers import Incident, IncidentStory, Reach, Transition
from streaming.queries.subject import Subject, explain_nothing, instant_of, only_one
from streaming.read_model.reader import ReadModel, Row

_INCIDENTS = """
SELECT i.*, coalesce(c.consequences, 0) AS consequences
FROM incidents_at($instant) i
LEFT JOIN (
    SELECT p.parent, count(*) AS consequences FROM incidents_at($instant) p WHERE p.parent IS NOT NULL GROUP BY p.parent
) c ON c.parent = i.incident_id
WHERE ($cluster IS NULL OR i.cluster = $cluster) AND ($group IS NULL OR i.group IN ($group, ''))
    AND ($code IS NULL OR i.code = $code) AND ($severity IS NULL OR i.severity = $severity)
    AND (NOT $only_open OR i.resolved_at IS NULL)
    AND (i.resolved_at IS NULL OR i.resolved_at >= $since)
ORDER BY (i.resolved_at IS NULL) DESC, i.opened_at DESC, i.code, i.subject, i.incident_id
"""

_BROKERS = """
SELECT q.cluster, q.broker, bool_or(q.group = $group) AS of_group
FROM queues_at($instant) q
GROUP BY q.cluster, q.broker
"""
_REACH = """
SELECT CAST(sum(b.queues) AS BIGINT) AS queues, max(b.groups) AS groups FROM brokers_at($instant) b
WHERE b.cluster = $cluster AND b.broker = $subject
"""
_REACH_OF_ALL = """
SELECT count(DISTINCT q.group) AS groups, count(*) AS queues FROM queues_at($instant) q
WHERE q.cluster = $cluster AND NOT starts_with(q.topic, '%RETRY%')
"""
_EVENT = """
SELECT e.value FROM telemetry e
WHERE e.source_id = $source_id AND coalesce(e.key, '') = $key AND e.seq = $seq
    AND e.date BETWEEN $first AND $last AND e.time BETWEEN $begin AND $end
LIMIT 1
"""
_EVENT_NEAR_MS = 600_000


def incidents(  # noqa: PLR0913  filters
    model: ReadModel,
    *,
    cluster: str | None = None,
    group: str | None = None,
    code: str | None = None,
    severity: str | None = None,
    only_open: bool = False,
    since: int = 0,
    at: int | None = None,
    unfold: bool = True,
) -> list[Incident]:
    """List incidents that were open at some time from ``since`` on, the open ones first, then the newest.

    Of a group also those of the cluster that touch it. Without ``unfold`` an incident is left out while the one that
    explains it is in the list.

    Raises:
        NotFoundError: there is no such cluster or group.
        UserError: history begins later.
    """
    wanted = {
        "cluster": cluster,
        "group": group,
        "code": code,
        "severity": severity,
        "only_open": only_open,
        "since": since,
        "instant": instant_of(at),
    }
    found = _found(model, wanted)
    if not found:
        explain_nothing(model, cluster, at, group)
    return found if unfold else folded(found)


def folded(found: Sequence[Incident]) -> list[Incident]:
    """Leave out what another one of them explains."""
    listed = {one.incident_id for one in found}
    return [one for one in found if one.parent not in listed]


def incidents_of(model: ReadModel, of: Subject, *, only_open: bool = False, since: int = 0) -> list[Incident]:
    """List the incidents of the group that was found, and those of its cluster that touch it."""
    wanted = {**of._asdict(), "code": None, "severity": None, "only_open": only_open, "since": since}
    return _found(model, wanted)


def incident_of(model: ReadModel, incident_id: str) -> Incident:
    """One incident without its story, by its id or a beginning of it that fits no other.

    Raises:
        NotFoundError: no incident has that id.
        UserError: several have.
    """
    found = model.rows("SELECT i.* FROM incidents i WHERE starts_with(i.incident_id, $id)", {"id": incident_id})
    return _incident(only_one(found, incident_id, "incident", "rebalance-watch incident list --all"))


def incident(model: ReadModel, incident_id: str) -> IncidentStory:
    """One incident with its story.

    Raises:
        UserError: see `incident_of`.
    """
    shown = incident_of(model, incident_id)
    life = model.transitions(shown.incident_id)
    absorbed = model.rows(
        "SELECT i.* FROM incidents i WHERE i.parent = $id ORDER BY i.opened_at, i.code, i.subject",
        {"id": shown.incident_id},
    )
    return IncidentStory(
        incident=shown.model_copy(update={"consequences": len(absorbed)}),
        reach=reach_of(model, shown.cluster, shown.subject, shown.opened_at) if not shown.group else None,
        life=tuple(_transitions(life)),
        absorbed=tuple(_incident(row) for row in absorbed),
        cause_event=_event(model, life[0]["cause"], life[0]["time"]),
    )


def reach_of(model: ReadModel, cluster: str, subject: str, opened_at: int) -> Reach:
    """Count the groups and queues that an incident of the cluster touched when it opened.

    Args:
        model: the tables.
        cluster: the cluster.
        subject: a broker, or else a collector, which all groups rest on.
        opened_at: when it opened, epoch milliseconds.
    """
    wanted = {"cluster": cluster, "subject": subject, "instant": opened_at}
    [found] = model.rows(_REACH, wanted)
    if found["queues"] is None:
        del wanted["subject"]
        [found] = model.rows(_REACH_OF_ALL, wanted)
    return Reach(groups=found["groups"], queues=found["queues"])


def _found(model: ReadModel, wanted: Mapping[str, object]) -> list[Incident]:
    rows = model.rows(_INCIDENTS, wanted)
    if wanted["group"] is not None and any(not row["group"] for row in rows):
        asked = {"group": wanted["group"], "instant": wanted["instant"]}
        brokers = {(row["cluster"], row["broker"]): row["of_group"] for row in model.rows(_BROKERS, asked)}
        rows = [row for row in rows if row["group"] or brokers.get((row["cluster"], row["subject"]), True)]
    return [_incident(row) for row in rows]


def _incident(row: Row) -> Incident:
    """Make the answer; a row from before there was a main cause has its last one in front."""
    known = row | {"evidence": json.loads(row["evidence"])}
    if not row["main_explanation"]:
        known |= {"main_cause": row["sub_cause"], "main_client_id": row["client_id"]}
        known |= {"main_explanation": row["explanation"]}
    return Incident(**known)


def _transitions(rows: Iterable[Row]) -> Iterable[Transition]:
    for row in rows:
        known = {name: row[name] for name in Transition.model_fields}
        yield Transition(**known | {"evidence": json.loads(row["evidence"])})


def _event(model: ReadModel, cause: str, near: int) -> dict[str, object] | None:
    """The event that a cause names; a key may hold the separator, a source and a number don't.

    It is looked for about the time of what it caused, and everywhere only if it is not there: its source's clock may be
    another one than the group's.
    """
    if not cause:
        return None  # time alone shows it
    source_id, rest = cause.split("|", 1)
    key, seq = rest.rsplit("|", 1)
    for begin, end in ((near - _EVENT_NEAR_MS, near + _EVENT_NEAR_MS), (0, INT64_MAX)):
        span = {"begin": begin, "end": end, "first": _day(begin), "last": _day(end)}
        found = model.rows(_EVENT, {"source_id": source_id, "key": key, "seq": int(seq), **span})
        if found:
            event: dict[str, object] = json.loads(found[0]["value"])
            return event
    return None


def _day(time_ms: int) -> date:
    """The day of an instant, UTC: what the archive is partitioned by."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).date() if time_ms < INT64_MAX else date.max
