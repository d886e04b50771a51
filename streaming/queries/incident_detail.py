"""Query one incident in full: timeline, evidence, waiting messages, explained incidents and triggering event."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime

import msgspec

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.events import ConsumerRunningInfo
from rebalance_model.observe.events.decoding import nests_deeper
from streaming.base.errors import NotFoundError
from streaming.base.language import gettext, ngettext
from streaming.base.limits import REMARK_CHARACTERS
from streaming.base.statements import statements_of, with_parts
from streaming.base.times import now_ms
from streaming.queries import labels
from streaming.queries.evidence import commands_of
from streaming.queries.group_at import GroupAt
from streaming.queries.groups import last_group_state
from streaming.queries.health import WithoutOwner
from streaming.queries.incidents import incident_with_children, incidents_beside, transitions_of
from streaming.queries.notifications import acknowledgement_of, notifications_of, silences_of
from streaming.queries.ownership import OWNED_QUEUES, queues
from streaming.queries.present import present
from streaming.queries.results import (
    BY_PERSON,
    Impact,
    Incident,
    IncidentDetail,
    IncidentReach,
    ListenerStacks,
    ListenerThread,
    Queue,
    Transition,
)
from streaming.tables.reader import ReadModel, Row

_IMPACT = with_parts(statements_of(__name__)["impact"], owned_queues=OWNED_QUEUES)


def impact_of(model: ReadModel, incident: Incident, queue: Queue | None) -> Impact | None:
    """Return the messages that wait in the queues of an incident; None if it is resolved or no queue is known.

    Its queues are the one that it is about, or those that its client has, or those of its broker, or of its group.

    Args:
        model: the tables.
        incident: the incident.
        queue: the queue that it is about, if it is open.
    """
    if queue is not None:
        return _impact_of_queue(queue)
    if incident.resolved_at is not None or incident.queue_id is not None:
        return None
    everything = {
        "cluster": incident.cluster, "group": incident.group, "broker": None, "client": None, "instant": INT64_MAX,
        "now": present(model, None),
    }  # fmt: skip
    # A client that has no queue, a collector and a rebalance have no queues of their own: those of the group count.
    narrower = ({"client": incident.subject}, {"broker": incident.subject}) if incident.subject else ()
    found = (_impact(model, everything | part) for part in (*narrower, {}))
    return next((one for one in found if one is not None), None)


def _impact(model: ReadModel, parameters: Mapping[str, object]) -> Impact | None:
    [row] = model.rows(_IMPACT, parameters)
    return Impact(**row) if row["queues"] else None


def _impact_of_queue(queue: Queue) -> Impact:
    is_known = queue.lag is not None and not queue.lag_is_stale
    waits = queue.waiting_ms is not None and not queue.waiting_is_stale
    return Impact(
        queues=1,
        lag=queue.lag if is_known else None,
        lag_is_at_least=is_known and queue.lag_is_at_least,
        lag_unknown=int(not is_known),
        lag_time=queue.lag_time if is_known else None,
        waiting_ms=queue.waiting_ms if waits else None,
        waiting_is_at_most=waits and queue.waiting_is_at_most,
    )


def waiting_text(impact: Impact) -> str:
    """Say how many messages wait, and for how long; what is unknown is said to be."""
    if impact.lag is None and not impact.waiting_ms:
        return gettext("It is unknown whether messages wait.")
    if impact.lag == 0 and not impact.lag_unknown and not impact.waiting_ms:
        return gettext("No message waits.")
    if impact.lag is None:
        said = gettext("Messages wait; how many is unknown")
    else:
        number = labels.total(impact.lag, impact.lag_unknown, at_least=impact.lag_is_at_least)
        said = ngettext("{number} message waits", "{number} messages wait", impact.lag, number=number)
    if not impact.waiting_ms:
        return gettext("{what}.", what=said)
    duration = labels.duration(impact.waiting_ms)
    if impact.waiting_is_at_most:
        return gettext("{what}, the oldest for {duration} or less.", what=said, duration=duration)
    return gettext("{what}, the oldest for {duration}.", what=said, duration=duration)


def unknown_text(impact: Impact) -> str:
    """Say of how many queues the lag is unknown; empty: of none."""
    if not impact.lag_unknown or impact.queues == 1:
        return ""
    return gettext(
        "The lag of {n} of {queues} queues is unknown.", n=f"{impact.lag_unknown:,}", queues=f"{impact.queues:,}"
    )


_SQL = statements_of(__name__)

_SHOWN_DEPTH = 64
"""An event's own fields nest less than ten deep; pydantic encodes some 200, depending on the stack."""
_EVENT_NEAR_MS = 600_000
_STEPS = dict(zip(("CLOSE", "REOPEN"), BY_PERSON, strict=True))
_ASKED_BEFORE_MS = 300_000
"""A listener is asked for its stacks before its queue has waited long enough for an incident."""

_OF_LISTENER = ("LISTENER_", "MESSAGE_", "POOL_")
"""The beginnings of the causes for which a client's listener is asked."""


def incident(model: ReadModel, incident_id: str) -> IncidentDetail:
    """Return one incident in full.

    Raises:
        UserError: see `find_incident`.
    """
    asked, children = incident_with_children(model, incident_id)
    life = transitions_of(model, asked.incident_id)
    beside = incidents_beside(model, asked)
    summary = next((one for one in beside if one.incident_id == asked.incident_id), asked)
    known = {one.incident_id for one in children}
    children += [one for one in beside if one.parent == asked.incident_id and one.incident_id not in known]
    queue = _queue_now(model, summary)
    detail = IncidentDetail(
        incident=summary.model_copy(update={"consequences": len(children)}),
        as_of=present(model, None),
        reach=reach_of(model, summary.cluster, summary.subject, summary.opened_at) if not summary.group else None,
        life=_with_closings(model, summary, tuple(_transitions(life))),
        absorbed=tuple(children),
        cause_event=_event(model, life[0]["cause"], life[0]["time"]),
        queue=queue,
        stacks=_stacks(model, summary),
        impact=impact_of(model, summary, queue),
        notifications=notifications_of(model, summary.incident_id),
        acknowledged=acknowledgement_of(model, summary.incident_id),
        silences=silences_of(model, summary, now_ms()) if summary.resolved_at is None else (),
        last_rebalance=_last_rebalance(model, summary),
    )
    return detail.model_copy(update={"commands": commands_of(summary)})


def _last_rebalance(model: ReadModel, incident: Incident) -> str | None:
    """Return the id of the rebalance that the incident is about, or of the last one that had begun when it opened."""
    parameters = {
        "cluster": incident.cluster,
        "group": incident.group,
        "opened": incident.opened_at,
        "subject": incident.subject,
    }
    rows = model.rows(_SQL["last_rebalance"], parameters)
    return rows[0]["rebalance_id"] if rows else None


def _stacks(model: ReadModel, incident: Incident) -> ListenerStacks | None:
    """Return the latest stacks of the client whose listener hung, of the time until the incident was over."""
    if not incident.sub_cause.startswith(_OF_LISTENER) or incident.client_id is None:
        return None
    begin, end = (
        incident.opened_at - _ASKED_BEFORE_MS,
        INT64_MAX if incident.resolved_at is None else incident.resolved_at,
    )
    client = {"key": f"{incident.cluster}/{incident.group}", "client_id": incident.client_id}
    rows = model.rows(_SQL["stacks"], client | _span(begin, end))
    if not rows:
        return None
    event = msgspec.json.decode(rows[0]["value"], type=ConsumerRunningInfo)
    threads = tuple(ListenerThread.model_validate(msgspec.structs.asdict(stack)) for stack in event.stacks)
    return ListenerStacks(client_id=event.client_id, time=event.answered or event.time, threads=threads)


def queue_without_owner(model: ReadModel, detail: IncidentDetail) -> WithoutOwner:
    """Return what the queue of an incident is if it has no owner, by the last state of its group."""
    if detail.queue is None:
        return WithoutOwner.UNASSIGNED
    group_at = GroupAt(detail.incident.cluster, detail.incident.group, INT64_MAX)
    return last_group_state(model, group_at).without_owner


def _queue_now(model: ReadModel, incident: Incident) -> Queue | None:
    if incident.resolved_at is not None or incident.queue_id is None:
        return None
    try:
        of_topic = queues(model, GroupAt(incident.cluster, incident.group, INT64_MAX), incident.topic, retry=True)
    except NotFoundError:
        return None  # its state has been removed
    return next(
        (queue for queue in of_topic if (queue.broker, queue.queue_id) == (incident.broker, incident.queue_id)), None
    )


def reach_of(model: ReadModel, cluster: str, subject: str, opened_at: int) -> IncidentReach:
    """Count the groups and queues affected by an incident of the cluster when it opened.

    Args:
        model: the tables.
        cluster: the cluster.
        subject: a broker, or a collector, which all groups depend on.
        opened_at: time of opening, epoch milliseconds.
    """
    parameters = {"cluster": cluster, "subject": subject, "instant": opened_at}
    [row] = model.rows(_SQL["reach_of_broker"], parameters)
    if row["queues"] is None:
        del parameters["subject"]
        [row] = model.rows(_SQL["reach_of_all"], parameters)
    return IncidentReach(groups=row["groups"], queues=row["queues"])


def _transitions(rows: Iterable[Row]) -> Iterable[Transition]:
    for row in rows:
        known = {name: row[name] for name in Transition.model_fields}
        yield Transition(**known | {"evidence": json.loads(row["evidence"])})


def _with_closings(model: ReadModel, incident: Incident, life: tuple[Transition, ...]) -> tuple[Transition, ...]:
    """Add to the timeline when a person closed the incident, or opened it again: after what was known by then."""
    for row in model.rows(_SQL["closings"], {"id": incident.incident_id}):
        before = [step for step in life if step.time <= row["time"]] or life[:1]
        closing = before[-1].model_copy(
            update={
                "time": row["time"],
                "transition": _STEPS[row["control"]],
                "sub_cause": "",
                "explanation": f"{row['author']}: {row['reason']}",
                "cause": "",
            }
        )
        life = (*before, closing, *life[len(before) :])
    return life


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
        rows = model.rows(_SQL["event"], {"source_id": source_id, "key": key, "seq": int(seq)} | _span(begin, end))
        if rows:
            return _event_as_sent(rows[0]["value"])
    return None


def _event_as_sent(value: str) -> dict[str, object]:
    """Return an event as it was sent; of one whose unknown fields nest too deeply to be shown, the text's beginning."""
    if nests_deeper(value.encode(), _SHOWN_DEPTH):
        return {"value": value[:REMARK_CHARACTERS]}
    event: dict[str, object] = json.loads(value)
    return event


def _span(begin: int, end: int) -> dict[str, object]:
    """Return the parameters of a span of the archive: its ends, epoch milliseconds, and their days."""
    return {"begin": begin, "end": end, "first": _day(begin), "last": _day(end)}


def _day(time_ms: int) -> date:
    """Return the UTC day of an instant, by which the archive is partitioned."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).date() if time_ms < INT64_MAX else date.max
