"""How the alerts are: what each channel was told, what waits and why, and what is silenced."""

from pathlib import Path

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from schemas.rows import AlertControl
from streaming.alerting.book import Book
from streaming.alerting.config import AlertsConfig
from streaming.alerting.controls import Controls
from streaming.alerting.decide import Desk
from streaming.alerting.follow import Follower
from streaming.alerting.ledger import CONTROLS, Ledger, columns_of, controls_of, is_claimed
from streaming.errors import UserError
from streaming.queries.incidents import incident_of
from streaming.read_model.reader import ReadModel
from streaming.times import written


class ChannelStatus(msgspec.Struct, frozen=True):
    """One channel."""

    channel: str
    kind: str | None
    """None: it is not in the file any more."""
    waiting: int
    last_sent: int | None
    failing_since: int | None
    attempts: int
    next_attempt: int | None
    error: str


class OpenIncident(msgspec.Struct, frozen=True):
    """An incident that is not over, as far as the alerts know."""

    incident_id: str
    cluster: str
    group: str
    code: str
    severity: str
    subject: str
    opened_at: int
    told: tuple[str, ...]
    """The channels that were told, or are about to be."""
    acknowledged: bool
    silenced: bool


class Status(msgspec.Struct, frozen=True):
    """All of it."""

    running: bool
    behind: int | None
    """Commits of the table of incidents that were not looked at; None: none was, ever."""
    channels: tuple[ChannelStatus, ...]
    incidents: tuple[OpenIncident, ...]
    silences: tuple[AlertControl, ...]

    @property
    def healthy(self) -> bool:
        """Whether alerts reach those who are to have them."""
        return self.running and not any(one.failing_since is not None for one in self.channels)


def status(root: Path, tables: Path, config: AlertsConfig, now: int) -> Status:
    """How the alerts are.

    Raises:
        UserError: there are no tables.
    """
    desk, behind = _opened(tables, config)
    book = desk.book
    channels = []
    for name in dict.fromkeys((*config.channels, *book.lanes)):
        lane, known = book.lanes.get(name), config.channels.get(name)
        channels.append(
            ChannelStatus(
                channel=name,
                kind=known.kind if known is not None else None,
                waiting=len(lane.waiting) if lane is not None else 0,
                last_sent=lane.sent[-1] if lane is not None and lane.sent else None,
                failing_since=lane.failed_since if lane is not None else None,
                attempts=lane.failures if lane is not None else 0,
                next_attempt=lane.retry_at if lane is not None and lane.failed_since is not None else None,
                error=lane.error if lane is not None else "",
            )
        )
    incidents = [
        OpenIncident(
            incident_id=one.last.incident_id, cluster=one.last.cluster, group=one.last.group, code=one.last.code,
            severity=one.last.severity, subject=one.last.subject, opened_at=one.last.opened_at, told=tuple(one.told),
            acknowledged=one.last.incident_id in desk.controls.acknowledged, silenced=one.silenced,
        )
        for one in sorted(book.known.values(), key=lambda one: (-one.last.opened_at, one.last.incident_id))
    ]  # fmt: skip
    return Status(
        running=is_claimed(root),
        behind=behind,
        channels=tuple(channels),
        incidents=tuple(incidents),
        silences=tuple(desk.controls.active(now)),
    )


def open_incident(tables: Path, beginning: str) -> IncidentTransition:
    """The open incident whose id begins so, as it was told last: one that the alerts know, or one of the tables.

    Raises:
        UserError: there is none, or there are several, or it is over.
    """
    book = Book()
    for row in Ledger(tables).rows():
        book.apply(row)
    known = [one.last for name, one in book.known.items() if name.startswith(beginning)]
    if len(known) == 1 and not known[0].group:
        return known[0]  # of the dead-man check, which the table of incidents has not
    with ReadModel(tables) as model:
        found = incident_of(model, beginning)
        if found.resolved_at is not None:
            raise UserError(f"The incident {found.incident_id} was resolved at {written(found.resolved_at)}.")
        return msgspec.convert(model.transitions(found.incident_id)[-1], IncidentTransition)


def _opened(tables: Path, config: AlertsConfig) -> tuple[Desk, int | None]:
    ledger = Ledger(tables)
    desk = Desk(config, ledger.rows())
    desk.controls = controls(tables)
    incidents = Follower(tables / "anomalies")
    position = ledger.position(incidents.table_id)
    return desk, None if position is None else incidents.version - position


def controls(tables: Path) -> Controls:
    """What people told the alerts.

    Raises:
        UserError: there are no tables.
    """
    held = Controls()
    held.take(controls_of(Follower(tables / CONTROLS, columns_of(CONTROLS)).whole().read_all()))
    return held
