"""The status of the alerts, and what a person does about those of an incident, on its page or by command."""

import secrets
from glob import escape
from pathlib import Path
from typing import Literal

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from schemas.rows import AlertControl, AlertDelivery
from streaming.base.errors import UserError
from streaming.base.place import Place
from streaming.base.statements import statements_of
from streaming.base.times import DAY_MS, written
from streaming.queries.health import Severity
from streaming.queries.incidents import find_incident, transitions_of
from streaming.queries.results import Incident
from streaming.serve.alerting.config import AlertsConfig
from streaming.serve.alerting.dispatcher import Dispatcher
from streaming.serve.alerting.follow import Follower, Ledger, is_claimed, write_control
from streaming.serve.alerting.state import AlertState, Controls
from streaming.tables.reader import ReadModel

_SQL = statements_of(__name__)


class ChannelStatus(msgspec.Struct, frozen=True):
    """The status of a channel."""

    channel: str
    kind: str | None
    """None if it is no longer configured."""
    waiting: int
    last_sent: int | None
    failing_since: int | None
    attempts: int
    next_attempt: int | None
    error: str


class AlertedIncident(msgspec.Struct, frozen=True):
    """An unresolved incident in the state of the alert process."""

    incident_id: str
    cluster: str
    group: str
    code: str
    severity: Severity
    subject: str
    opened_at: int
    notified: tuple[str, ...]
    """The channels that have been, or are about to be, notified."""
    acknowledged: bool
    silenced: bool
    off_hours: tuple[str, ...] = ()
    """The channels that are notified when the hours of their routes begin."""


class Status(msgspec.Struct, frozen=True):
    """The status of the alerts."""

    running: bool
    behind: int | None
    """The number of unprocessed commits of the incidents; None if none has ever been processed."""
    channels: tuple[ChannelStatus, ...]
    incidents: tuple[AlertedIncident, ...]
    silences: tuple[AlertControl, ...]

    @property
    def healthy(self) -> bool:
        """Return whether alerts are being delivered."""
        return self.running and not any(one.failing_since is not None for one in self.channels)


def status(root: Path, tables: Place, config: AlertsConfig, now: int) -> Status:
    """Read the status of the alerts.

    Raises:
        UserError: there are no tables.
    """
    dispatcher, behind = _opened(tables, config)
    state = dispatcher.state
    channels = []
    for name in dict.fromkeys((*config.channels, *state.queues)):
        queue, settings = state.queues.get(name), config.channels.get(name)
        channels.append(
            ChannelStatus(
                channel=name,
                kind=settings.kind if settings is not None else None,
                waiting=len(queue.waiting) if queue is not None else 0,
                last_sent=queue.sent[-1] if queue is not None and queue.sent else None,
                failing_since=queue.failed_since if queue is not None else None,
                attempts=queue.failures if queue is not None else 0,
                next_attempt=queue.retry_at if queue is not None and queue.failed_since is not None else None,
                error=queue.error if queue is not None else "",
            )
        )
    last_opened_first = sorted(state.incidents.values(), key=lambda i: (-i.last.opened_at, i.last.incident_id))
    acknowledged = dispatcher.controls.acknowledged
    incidents = [
        AlertedIncident(
            incident_id=last.incident_id, cluster=last.cluster, group=last.group, code=last.code,
            severity=last.severity, subject=last.subject, opened_at=last.opened_at,
            notified=tuple(incident.last_alert), acknowledged=last.incident_id in acknowledged,
            silenced=incident.silenced, off_hours=tuple(sorted(incident.off_hours)),
        )
        for incident in last_opened_first
        if dispatcher.counted(last := incident.last).transition != "RESOLVED"
    ]  # fmt: skip
    return Status(
        running=is_claimed(root),
        behind=behind,
        channels=tuple(channels),
        incidents=tuple(incidents),
        silences=tuple(dispatcher.controls.active(now)),
    )


def open_incident(tables: Place, beginning: str) -> IncidentTransition:
    """Find an open incident by a prefix of its id, in the state of the alert process or in the tables.

    Raises:
        UserError: there is none, the prefix is not unique, or the incident is resolved.
    """
    state = AlertState()
    with ReadModel(tables) as model:
        for row in _deliveries(model):
            state.apply(row)
        own = [tracked.last for name, tracked in state.incidents.items() if name.startswith(beginning)]
        if len(own) == 1 and not own[0].group:
            return own[0]  # an incident of the dead-man check, which is not in the table
        incident = find_incident(model, beginning)
        if incident.resolved_at is not None:
            raise UserError(f"The incident {incident.incident_id} was resolved at {written(incident.resolved_at)}.")
        return msgspec.convert(transitions_of(model, incident.incident_id)[-1], IncidentTransition)


def _opened(tables: Place, config: AlertsConfig) -> tuple[Dispatcher, int | None]:
    with ReadModel(tables, once=True) as model:
        dispatcher = Dispatcher(config, _deliveries(model))
        dispatcher.controls = Controls.read(model)
    incidents = Follower(tables / "anomalies")
    position = Ledger(tables).position(incidents.table_id)
    return dispatcher, None if position is None else incidents.version - position


def _deliveries(model: ReadModel) -> list[AlertDelivery]:
    rows = model.rows(_SQL["deliveries"])
    return [msgspec.convert(row, AlertDelivery) for row in rows]


_DAYS_MAX = 366


def acknowledge(tables: Place, incident_id: str, reason: str, author: str, now: int) -> IncidentTransition:
    """Acknowledge an open incident, by its id or a unique prefix of it: no more reminders of it are sent.

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

    The incident is found by its id or a unique prefix of it.

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
    """Close an incident, by its id or a unique prefix of it: it counts as resolved until it becomes worse than it is.

    Raises:
        UserError: it is unknown, or resolved; there is no reason or no name; or see `write_control`.
    """
    with ReadModel(tables, once=True) as model:
        incident = find_incident(model, incident_id)
    if incident.resolved_at is not None:
        why = f" ({incident.resolution})" if incident.resolution else ""
        raise UserError(
            f"The incident {incident.incident_id} was resolved at {written(incident.resolved_at)}{why}: there is "
            "nothing to close."
        )
    _write(tables, "CLOSE", incident, reason, author, now)
    return incident


def reopen(tables: Place, incident_id: str, reason: str, author: str, now: int) -> Incident:
    """Undo `close`: the incident is open again if its condition still holds. Without a reason: as it was closed.

    Raises:
        UserError: it is unknown, or nobody has closed it; there is no name; or see `write_control`.
    """
    with ReadModel(tables, once=True) as model:
        incident = find_incident(model, incident_id)
        row = Controls.read(model).closings.get(incident.incident_id)
    if row is None or row.control != "CLOSE":
        raise UserError(
            f"Nobody has closed the incident {incident.incident_id}: see who closed what with `rebalance-watch "
            "incident show ID`."
        )
    _write(tables, "REOPEN", incident, reason or row.reason, author, now)
    return incident


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
