"""Query one incident in full: timeline, evidence, explained incidents and triggering event."""

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime

from rebalance_model.entities import INT64_MAX
from streaming.base.errors import NotFoundError
from streaming.queries.group_at import GroupAt
from streaming.queries.incidents import incident_from_row, incident_of, transitions_of
from streaming.queries.ownership import queues_of
from streaming.queries.results import Incident, IncidentDetail, Queue, Reach, Transition
from streaming.tables.reader import ReadModel, Row

_REACH = """
SELECT CAST(sum(b.queues) AS BIGINT) AS queues, max(b.groups) AS groups FROM brokers_at(from_ms($instant)) b
WHERE b.cluster = $cluster AND b.broker = $subject
"""
_REACH_OF_ALL = """
SELECT count(DISTINCT q.group) AS groups, count(*) AS queues FROM queues_at(from_ms($instant)) q
WHERE q.cluster = $cluster AND NOT starts_with(q.topic, '%RETRY%')
"""
_EVENT = """
SELECT e.value FROM telemetry e
WHERE e.source_id = $source_id AND coalesce(e.key, '') = $key AND e.seq = $seq
    AND e.date BETWEEN $first AND $last AND e.time BETWEEN from_ms($begin) AND from_ms($end)
LIMIT 1
"""
_EVENT_NEAR_MS = 600_000


def incident(model: ReadModel, incident_id: str) -> IncidentDetail:
    """Return one incident in full.

    Raises:
        UserError: see `incident_of`.
    """
    shown = incident_of(model, incident_id)
    life = transitions_of(model, shown.incident_id)
    absorbed = model.rows(
        "SELECT i.* FROM incidents i WHERE i.parent = $id ORDER BY i.opened_at, i.code, i.subject",
        {"id": shown.incident_id},
    )
    return IncidentDetail(
        incident=shown.model_copy(update={"consequences": len(absorbed)}),
        reach=reach_of(model, shown.cluster, shown.subject, shown.opened_at) if not shown.group else None,
        life=tuple(_transitions(life)),
        absorbed=tuple(incident_from_row(row) for row in absorbed),
        cause_event=_event(model, life[0]["cause"], life[0]["time"]),
        queue=_queue_now(model, shown),
    )


def _queue_now(model: ReadModel, shown: Incident) -> Queue | None:
    if shown.resolved_at is not None or shown.queue_id is None:
        return None
    try:
        found = queues_of(model, GroupAt(shown.cluster, shown.group, INT64_MAX), shown.topic, retry=True)
    except NotFoundError:
        return None  # its state has been removed
    return next((one for one in found if (one.broker, one.queue_id) == (shown.broker, shown.queue_id)), None)


def reach_of(model: ReadModel, cluster: str, subject: str, opened_at: int) -> Reach:
    """Count the groups and queues affected by an incident of the cluster when it opened.

    Args:
        model: the tables.
        cluster: the cluster.
        subject: a broker, or a collector, which all groups depend on.
        opened_at: time of opening, epoch milliseconds.
    """
    wanted = {"cluster": cluster, "subject": subject, "instant": opened_at}
    [found] = model.rows(_REACH, wanted)
    if found["queues"] is None:
        del wanted["subject"]
        [found] = model.rows(_REACH_OF_ALL, wanted)
    return Reach(groups=found["groups"], queues=found["queues"])


def _transitions(rows: Iterable[Row]) -> Iterable[Transition]:
    for row in rows:
        known = {name: row[name] for name in Transition.model_fields}
        yield Transition(**known | {"evidence": json.loads(row["evidence"])})


def _event(model: ReadModel, cause: str, near: int) -> dict[str, object] | None:
    """Return the event that a cause refers to; a key may contain the separator, source and number may not.

    The search begins near the time of the transition and covers the whole archive only if that fails: the clock of the
    source may differ from that of the group.
    """
    if not cause:
        return None  # caused by the passage of time
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
    """Return the UTC day of an instant, by which the archive is partitioned."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).date() if time_ms < INT64_MAX else date.max
