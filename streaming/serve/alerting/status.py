"""The status of the alerts: channels with pending and failed messages, open incidents and silences."""

from pathlib import Path

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from schemas.rows import AlertControl
from streaming.base.errors import UserError
from streaming.base.place import Place
from streaming.base.times import written
from streaming.queries.health import Severity
from streaming.queries.incidents import find_incident, transitions_of
from streaming.serve.alerting.config import AlertsConfig
from streaming.serve.alerting.controls import Controls
from streaming.serve.alerting.dispatcher import Dispatcher
from streaming.serve.alerting.follow import Follower
from streaming.serve.alerting.ledger import CONTROLS, Ledger, columns_of, controls_of, is_claimed
from streaming.serve.alerting.state import AlertState
from streaming.tables.reader import ReadModel


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
        """Whether alerts are being delivered."""
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
    for row in Ledger(tables).rows():
        state.apply(row)
    own = [tracked.last for name, tracked in state.incidents.items() if name.startswith(beginning)]
    if len(own) == 1 and not own[0].group:
        return own[0]  # an incident of the dead-man check, which is not in the table
    with ReadModel(tables) as model:
        incident = find_incident(model, beginning)
        if incident.resolved_at is not None:
            raise UserError(f"The incident {incident.incident_id} was resolved at {written(incident.resolved_at)}.")
        return msgspec.convert(transitions_of(model, incident.incident_id)[-1], IncidentTransition)


def _opened(tables: Place, config: AlertsConfig) -> tuple[Dispatcher, int | None]:
    ledger = Ledger(tables)
    dispatcher = Dispatcher(config, ledger.rows())
    dispatcher.controls = controls(tables)
    incidents = Follower(tables / "anomalies")
    position = ledger.position(incidents.table_id)
    return dispatcher, None if position is None else incidents.version - position


def controls(tables: Place) -> Controls:
    """Read the user commands.

    Raises:
        UserError: there are no tables.
    """
    held = Controls()
    held.take(controls_of(Follower(tables / CONTROLS, columns_of(CONTROLS)).whole().read_all()))
    return held
