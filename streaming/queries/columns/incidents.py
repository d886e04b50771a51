"""The columns of an incident and of its timeline."""

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.columns.column import SHORT_ID, Column, Context, Table, Value, plain
from streaming.queries.results import BY_PERSON, Incident, Transition


def _incident_duration(incident: Incident, _: Context) -> str:
    ended = incident.resolved_at
    return gettext("open") if ended is None else labels.duration(ended - incident.opened_at)


def _resolved(incident: Incident, context: Context) -> Value:
    return Value(gettext("open")) if incident.resolved_at is None else plain("time", incident.resolved_at, context)


def _other_client(incident: Incident, _: Context) -> str:
    """Return the client, if it is not the subject itself."""
    client = incident.main_client_id
    return labels.NOT_KNOWN if client is None or client == incident.subject else client


INCIDENT = Table(
    Column(Incident, "incident_id", show=lambda i, _: Value(i.incident_id[:SHORT_ID], "quiet")),
    Column(Incident, "severity", show=lambda i, _: Value(gettext(i.severity), i.severity), spare=True, wide=True),
    Column(Incident, "opened_at", "time"),
    Column(Incident, "resolved_at", "time", _resolved),
    Column(Incident, "duration", "duration", _incident_duration, "Duration", ("opened_at", "resolved_at")),
    Column(Incident, "cluster"),
    Column(Incident, "group", show=lambda i, _: i.group or gettext("(cluster)")),
    Column(Incident, "title", "text", lambda i, _: Value(i.title, i.severity), "Incident", ("code", "main_cause")),
    Column(Incident, "subject", "name", lambda i, _: i.subject or gettext("the group"), wide=True),
    Column(Incident, "main_client_id", show=_other_client, spare=True),
    Column(Incident, "parent", show=lambda i, _: (i.parent or labels.NOT_KNOWN)[:SHORT_ID], spare=True),
    Column(Incident, "consequences", "count", lambda i, _: str(i.consequences or "")),
    Column(Incident, "resolution", show=lambda i, _: labels.reason(i.resolution or ""), spare=True),
    grid="incident_id severity opened_at duration cluster group title subject main_client_id parent consequences"
    " resolution",
    page="title severity subject opened_at resolved_at duration",
)


def _transition_cause(step: Transition, _: Context) -> str:
    if step.transition in BY_PERSON:
        return step.explanation
    parent = f"explained by {step.parent[:SHORT_ID]}" if step.parent is not None else ""
    return ", ".join(filter(None, (step.sub_cause, parent)))


TRANSITION = Table(
    Column(Transition, "time", "time"),
    Column(Transition, "transition"),
    Column(Transition, "severity", show=lambda s, _: Value(s.severity, s.severity)),
    Column(Transition, "sub_cause", "text", _transition_cause, "Cause", ("sub_cause", "parent")),
    Column(Transition, "cause", heading="Event", spare=True),
    grid="time transition severity sub_cause cause",
)
