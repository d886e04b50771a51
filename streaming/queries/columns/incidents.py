"""Columns of incidents, of what people did about their alerts, and of the checks of the data."""

from streaming.base.language import gettext, marked, ngettext
from streaming.queries import labels
from streaming.queries.columns.column import SHORT_ID, ColumnValue, Context, ResultColumn, Table, Tone, plain
from streaming.queries.results import BY_PERSON, Incident, QualityCheck, RecordedAction, Transition

_DETAIL_CHARACTERS = 300
_ACTIONS = {
    "ACKNOWLEDGE": marked("acknowledged"), "SILENCE": marked("silenced"), "UNSILENCE": marked("ended the silence"),
    "CLOSE": marked("closed"), "REOPEN": marked("reopened"),
    "SQL": marked("ran SQL"),
}  # fmt: skip
_ACTION_RESULTS: dict[str, tuple[str, Tone]] = {
    "DONE": (marked("done"), ""),
    "REFUSED": (marked("not allowed"), "attention"),
    "FAILED": (marked("failed"), "attention"),
}  # fmt: skip


def _action_result(row: RecordedAction, _: Context) -> ColumnValue:
    text, tone = _ACTION_RESULTS[row.result]
    note = row.message or ("" if row.rows is None else ngettext("{n} row", "{n} rows", row.rows))
    return ColumnValue(gettext(text), tone, note)


def _who(row: RecordedAction, _: Context) -> ColumnValue:
    """Show who did it, with what identifies the person if that says more."""
    name = row.name or row.subject
    return ColumnValue(name or gettext("someone on this machine"), "" if name else "quiet", hint=row.subject)


def _detail(row: RecordedAction, _: Context) -> ColumnValue:
    """Show a reason, or the beginning of a query, with the whole of it."""
    if len(row.detail) <= _DETAIL_CHARACTERS:
        return ColumnValue(row.detail)
    return ColumnValue(f"{row.detail[:_DETAIL_CHARACTERS]}…", hint=row.detail)


RECORDED_ACTION = Table(
    ResultColumn(RecordedAction, "time", "time"),
    ResultColumn(RecordedAction, "name", show=_who),
    ResultColumn(RecordedAction, "source"),
    ResultColumn(RecordedAction, "action", show=lambda a, _: gettext(_ACTIONS[a.action])),
    ResultColumn(RecordedAction, "target", wide=True),
    ResultColumn(RecordedAction, "result", show=_action_result),
    ResultColumn(RecordedAction, "detail", wide=True, show=_detail),
    page="time name action result source target detail",
)


def _result(check: QualityCheck, _: Context) -> ColumnValue:
    if check.success:
        return ColumnValue("ok", "OK") if check.row_count else ColumnValue("nothing to check", "quiet")
    return ColumnValue("FAILED, stops the job" if check.stops_job else "FAILED", "BAD")


QUALITY = Table(
    ResultColumn(QualityCheck, "suite"),
    ResultColumn(QualityCheck, "column", show=lambda c, _: labels.checked(c.column, c.expectation)),
    ResultColumn(QualityCheck, "success", show=_result),
    ResultColumn(QualityCheck, "unexpected_count", "count"),
    ResultColumn(QualityCheck, "row_count", "count"),
    ResultColumn(QualityCheck, "checked_at", "time", lambda c, x: labels.moment_in_zone(c.checked_at or c.time, x.now),
           made_from=("checked_at", "time")),
    ResultColumn(QualityCheck, "observed", show=lambda c, _: "" if c.success else c.observed or "", spare=True,
                 wide=True),
    grid="suite column success unexpected_count row_count checked_at observed",
)  # fmt: skip


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
    from streaming.queries.rule_text import headline  # of all rules, which most tables do without

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
