"""What a person does about the alerts of an incident, on its page or by command."""

import secrets
from glob import escape
from typing import Literal

from rebalance_model.observe.effects import IncidentTransition
from schemas.rows import AlertControl
from streaming.base.errors import UserError
from streaming.base.place import Place
from streaming.base.times import DAY_MS, written
from streaming.queries.incidents import find_incident
from streaming.queries.results import Incident
from streaming.serve.alerting.ledger import write_control
from streaming.serve.alerting.status import controls, open_incident
from streaming.tables.reader import ReadModel

_DAYS_MAX = 366


def acknowledge(tables: Place, incident_id: str, reason: str, author: str, now: int) -> IncidentTransition:
    """Acknowledge an open incident: no more reminders of it are sent.

    Args:
        tables: the tables.
        incident_id: its id, or a unique prefix of it.
        reason: why, may be empty.
        author: who does it.
        now: epoch milliseconds.

    Raises:
        UserError: see `open_incident` and `write_control`.
    """
    incident = open_incident(tables, incident_id)
    write_control(tables, AlertControl(
        time=now, control="ACK", control_id=incident.incident_id, cluster=None, group=None, code=None, until=None,
        reason=reason, author=author,
    ))  # fmt: skip
    return incident


def check_span(span_ms: int) -> None:
    """Check how long a silence is to last, in milliseconds.

    Raises:
        UserError: not at all, or longer than a year.
    """
    if not 0 < span_ms <= _DAYS_MAX * DAY_MS:
        raise UserError(f"A silence needs a duration above zero and of {_DAYS_MAX} days at most.")


def silence_like(
    tables: Place, incident_id: str, span_ms: int, reason: str, author: str, now: int
) -> AlertControl:  # fmt: skip
    """Silence the alerts of incidents of the same code, group and cluster as an open one, for a time.

    Args:
        tables: the tables.
        incident_id: its id, or a unique prefix of it.
        span_ms: how long, in milliseconds.
        reason: why.
        author: who does it.
        now: epoch milliseconds.

    Raises:
        UserError: see `check_span`; or there is no reason; or see `open_incident` and `write_control`.
    """
    check_span(span_ms)
    if not reason.strip():
        raise UserError("A silence needs a reason.")
    incident = open_incident(tables, incident_id)
    silence = AlertControl(
        time=now, control="SILENCE", control_id=secrets.token_hex(4), cluster=escape(incident.cluster),
        group=escape(incident.group), code=incident.code, until=now + span_ms, reason=reason, author=author,
    )  # fmt: skip
    write_control(tables, silence)
    return silence


def close(tables: Place, incident_id: str, reason: str, author: str, now: int) -> Incident:
    """Close an incident: it counts as resolved until it becomes worse than it is.

    Args:
        tables: the tables.
        incident_id: its id, or a unique prefix of it.
        reason: why.
        author: who does it.
        now: epoch milliseconds.

    Raises:
        UserError: it is unknown, or resolved; there is no reason or no name; or see `write_control`.
    """
    incident = _incident(tables, incident_id)
    if incident.resolved_at is not None:
        why = f" ({incident.resolution})" if incident.resolution else ""
        raise UserError(
            f"The incident {incident.incident_id} was resolved at {written(incident.resolved_at)}{why}: there is "
            "nothing to close."
        )
    _write(tables, "CLOSE", incident, reason, author, now)
    return incident


def reopen(tables: Place, incident_id: str, reason: str, author: str, now: int) -> Incident:
    """Undo `close`: the incident is open again if its condition still holds.

    Args:
        tables: the tables.
        incident_id: its id, or a unique prefix of it.
        reason: why; empty: as it was closed.
        author: who does it.
        now: epoch milliseconds.

    Raises:
        UserError: it is unknown, or nobody has closed it; there is no name; or see `write_control`.
    """
    incident = _incident(tables, incident_id)
    row = controls(tables).closings.get(incident.incident_id)
    if row is None or row.control != "CLOSE":
        raise UserError(
            f"Nobody has closed the incident {incident.incident_id}: see who closed what with `rebalance-watch "
            "incident show ID`."
        )
    _write(tables, "REOPEN", incident, reason or row.reason, author, now)
    return incident


def _incident(tables: Place, beginning: str) -> Incident:
    with ReadModel(tables) as model:
        return find_incident(model, beginning)


def _write(
    tables: Place, control: Literal["CLOSE", "REOPEN"], incident: Incident, reason: str, author: str, now: int
) -> None:  # fmt: skip
    if not (given := " ".join(reason.split())):
        raise UserError("Closing an incident needs a reason.")
    if not (who := " ".join(author.split())):
        raise UserError("The incident keeps who closed it: give a name.")
    write_control(tables, AlertControl(
        time=now, control=control, control_id=incident.incident_id, cluster=None, group=None, code=None, until=None,
        reason=given, author=who, severity=incident.severity,
    ))  # fmt: skip
