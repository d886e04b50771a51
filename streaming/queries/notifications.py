"""Query who was notified about an incident, and what people and programs did about alerts, or by SQL."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from streaming.base.language import gettext, marked
from streaming.base.statements import statements_of
from streaming.queries.results import Acknowledgement, AlertSilence, Incident, Notification, RecordedAction
from streaming.tables.reader import ReadModel, Row

_SQL = statements_of(__name__)

ActionKind: TypeAlias = Literal["incident", "sql"]
"""About incidents and silences, or SQL."""
LAST = 1_000
"""The actions that are listed at most."""


def operator_actions(
    model: ReadModel, *, since: int = 0, kind: ActionKind | None = None, last: int = LAST
) -> list[RecordedAction]:
    """List the actions since an instant (epoch milliseconds), of one kind or of both, the newest first."""
    rows = model.rows(_SQL["actions"], {"since": since, "kind": kind, "last": last})
    return [RecordedAction(**row) for row in rows]


STEPS = {
    "HELD": marked("held back"), "QUEUED": marked("waiting to be sent"), "PACKED": marked("being sent"),
    "SENT": marked("sent"), "FAILED": marked("failed, is sent again"), "GIVEN_UP": marked("given up"),
}  # fmt: skip
"""The labels of a notification's last step."""
_REASONS = {
    "SILENCED": marked("a silence holds it back"), "UNDECIDED": marked("another incident may still explain this one"),
    "OFF_HOURS": marked("the hours of its route have not begun"), "ABSORBED": marked("another incident explains it"),
    "NO_ROUTE": marked("no route of the alerts file matches"),
    "NOT_NOTIFIED": marked("it is resolved, and no channel was notified"),
    "RECLASSIFIED": marked("a new cause alone is not sent"),
    "DEESCALATED": marked("a lower severity alone is not sent"),
    "REBUILT": marked("a rebuild gave the incident a new id"),
    "SUMMARY": marked("part of a summary"),
}  # fmt: skip
"""The labels of the reason of a notification's last step."""
MESSAGES = {
    "OPENED": marked("opened"), "ESCALATED": marked("escalated"), "REMINDER": marked("reminder"),
    "RESOLVED": marked("resolved"),
}  # fmt: skip


def notifications_of(model: ReadModel, incident_id: str) -> tuple[Notification, ...]:
    """List the alerts about an incident, the first first, each with its last step."""
    return tuple(Notification(**row) for row in model.rows(_SQL["deliveries"], {"id": incident_id}))


def acknowledgement_of(model: ReadModel, incident_id: str) -> Acknowledgement | None:
    """Return who first acknowledged an incident; None: nobody has."""
    return next((Acknowledgement(**row) for row in model.rows(_SQL["acknowledgement"], {"id": incident_id})), None)


def silences_of(model: ReadModel, incident: Incident, now: int) -> tuple[AlertSilence, ...]:
    """List the silences active at ``now`` (epoch milliseconds) that match an incident, the first to end first."""
    return tuple(
        AlertSilence(silence_id=row["control_id"], until=row["until"], author=row["author"], reason=row["reason"])
        for row in _active(model.rows(_SQL["silences"], {}), now)
        if all(
            row[name] is None or fnmatchcase(value, row[name])
            for name, value in (("cluster", incident.cluster), ("group", incident.group), ("code", incident.code))
        )
    )


def _active(rows: Iterable[Row], now: int) -> Iterable[Row]:
    return (row for row in rows if row["control"] == "SILENCE" and row["until"] is not None and now < row["until"])


def step_text(notification: Notification) -> str:
    """Return what happened to a notification, with the reason if it is not on its way."""
    step = gettext(STEPS.get(notification.step, notification.step))
    why = notification.detail or (
        gettext(_REASONS.get(notification.reason, notification.reason)) if notification.reason else ""
    )
    return gettext("{what}: {reason}", what=step, reason=why) if why and notification.step != "SENT" else step
