"""The columns of an incident and of its timeline."""

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.advice import headline
from streaming.queries.columns.column import SHORT_ID, ColumnValue, Context, ResultColumn, Table, plain
from streaming.queries.results import BY_PERSON, Incident, Transition


def _incident_duration(incident: Incident, _: Context) -> str:
    ended = incident.resolved_at
    return gettext("open") if ended is None else labels.duration(ended - incident.opened_at)


def _resolved(incident: Incident, context: Context) -> ColumnValue:
    return (
        ColumnValue(gettext("open")) if incident.resolved_at is None else plain("time", incident.resolved_at, context)
    )


def _other_client(incident: Incident, _: Context) -> str:
    """Return the client, if it is not the subject itself."""
    client = incident.client_id
    return labels.NOT_KNOWN if client is None or client == incident.subject else client


def _headline(incident: Incident, _: Context) -> ColumnValue:
    return ColumnValue(headline(incident), incident.severity)


INCIDENT = Table(
    ResultColumn(Incident, "headline", "text", _headline, wide=True),
    ResultColumn(Incident, "incident_id", show=lambda i, _: ColumnValue(i.incident_id[:SHORT_ID], "quiet")),
    ResultColumn(
        Incident, "severity", show=lambda i, _: ColumnValue(gettext(i.severity), i.severity), spare=True, wide=True
    ),
    ResultColumn(Incident, "opened_at", "time"),
    ResultColumn(Incident, "resolved_at", "time", _resolved),
    ResultColumn(Incident, "duration", "duration", _incident_duration, "Duration", ("opened_at", "resolved_at")),
    ResultColumn(Incident, "cluster"),
    ResultColumn(Incident, "group", show=lambda i, _: i.group or gettext("(cluster)")),
    ResultColumn(
        Incident, "title", "text", lambda i, _: ColumnValue(i.title, "quiet"), "Code", ("code", "sub_cause"), spare=True
    ),
    ResultColumn(Incident, "subject", "name", lambda i, _: i.subject or gettext("the group"), wide=True),
    ResultColumn(Incident, "client_id", show=_other_client, spare=True),
    ResultColumn(Incident, "parent", show=lambda i, _: (i.parent or labels.NOT_KNOWN)[:SHORT_ID], spare=True),
    ResultColumn(Incident, "consequences", "count", lambda i, _: str(i.consequences or ""), spare=True),
    ResultColumn(Incident, "resolution", show=lambda i, _: labels.reason(i.resolution or ""), spare=True),
    grid="incident_id severity headline opened_at duration cluster group client_id parent consequences title"
    " resolution",
    page="headline severity subject opened_at resolved_at duration",
)


def _transition_cause(step: Transition, _: Context) -> str:
    if step.transition in BY_PERSON:
        return step.explanation
    parent = f"explained by {step.parent[:SHORT_ID]}" if step.parent is not None else ""
    return ", ".join(filter(None, (step.sub_cause, parent)))


TRANSITION = Table(
    ResultColumn(Transition, "time", "time"),
    ResultColumn(Transition, "transition"),
    ResultColumn(Transition, "severity", show=lambda s, _: ColumnValue(s.severity, s.severity)),
    ResultColumn(Transition, "sub_cause", "text", _transition_cause, "Cause", ("sub_cause", "parent")),
    ResultColumn(Transition, "cause", heading="Event", spare=True),
    grid="time transition severity sub_cause cause",
)
