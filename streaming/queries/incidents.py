"""What is wrong, and was."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime

from rebalance_model.entities import INT64_MAX
from streaming.queries.answers import Incident, IncidentStory, Transition
from streaming.queries.subject import Subject, explain_nothing, instant_of, only_one
from streaming.read_model.reader import ReadModel, Row

_INCIDENTS = """
SELECT i.* FROM incidents_at($instant) i
WHERE ($cluster IS NULL OR i.cluster = $cluster) AND ($group IS NULL OR i.group = $group)
    AND ($code IS NULL OR i.code = $code) AND ($severity IS NULL OR i.severity = $severity)
    AND (NOT $only_open OR i.resolved_at IS NULL)
    AND (i.resolved_at IS NULL OR i.resolved_at >= $since)
ORDER BY (i.resolved_at IS NULL) DESC, i.opened_at DESC, i.code, i.subject, i.incident_id
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
) -> list[Incident]:
    """Incidents that were open at some time from ``since`` on, the open ones first, then the newest.

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
    return found


def incidents_of(model: ReadModel, of: Subject, *, only_open: bool = False, since: int = 0) -> list[Incident]:
    """The incidents of the group that was found."""
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
        incident=shown,
        life=tuple(_transitions(life)),
        absorbed=tuple(_incident(row) for row in absorbed),
        cause_event=_event(model, life[0]["cause"], life[0]["time"]),
    )


def _found(model: ReadModel, wanted: Mapping[str, object]) -> list[Incident]:
    return [_incident(row) for row in model.rows(_INCIDENTS, wanted)]


def _incident(row: Row) -> Incident:
    return Incident(**row | {"evidence": json.loads(row["evidence"])})


def _transitions(rows: Iterable[Row]) -> Iterable[Transition]:
    for row in rows:
        known = {name: row[name] for name in Transition.model_fields}
        yield Transition(**known | {"evidence": json.loads(row["evidence"])})


def _event(model: ReadModel, cause: str, near: int) -> dict[str, object] | None:
    """The event that a cause names; a key may hold the separator, a source and a number don't.

    It is looked for about the time of what it caused, and everywhere only if it is not there: its source's clock may be
    another one than the group's.
    """
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
