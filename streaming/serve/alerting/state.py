"""The state of the alert process: the folded rows of its ledger and of what users command.

A restart after a crash folds the same rows.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Self

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from schemas.rows import AlertControl, AlertDelivery
from streaming.base.statements import statements_of
from streaming.queries.health import SEVERITY, Severity
from streaming.serve.alerting.alert import Alert, Delivery, key_of

if TYPE_CHECKING:
    from streaming.tables import ReadModel

_SQL = statements_of(__name__)


@dataclass
class Controls:
    """The rows of `alert_controls`, folded."""

    silences: dict[str, AlertControl] = field(default_factory=dict)
    """By id, without those ended by the user."""
    acknowledged: set[str] = field(default_factory=set)
    """The ids of acknowledged incidents, which get no reminders."""
    closings: dict[str, AlertControl] = field(default_factory=dict)
    """By incident: the last row that closes it or opens it again."""

    @classmethod
    def read(cls, model: "ReadModel") -> Self:
        """Fold all rows of the table."""
        controls = cls()
        rows = model.rows(_SQL["controls"])
        controls.take(msgspec.convert(row, AlertControl) for row in rows)
        return controls

    def take(self, rows: Iterable[AlertControl]) -> None:
        """Fold further rows, oldest first."""
        for row in rows:
            if row.control == "SILENCE":
                self.silences[row.control_id] = row
            elif row.control == "END":
                self.silences.pop(row.control_id, None)
            elif row.control == "ACK":
                self.acknowledged.add(row.control_id)
            else:
                self.closings[row.control_id] = row

    def active(self, now: int) -> list[AlertControl]:
        """List the active silences, ordered by their end."""
        return sorted(
            (silence for silence in self.silences.values() if silence.until is not None and now < silence.until),
            key=lambda silence: (silence.until, silence.control_id),
        )

    def closed(self, incident_id: str, last: IncidentTransition | None) -> AlertControl | None:
        """Return the row that closes an incident, unless it is worse after its last transition than it was then.

        Without a last transition it is not known to be open.
        """
        row = self.closings.get(incident_id)
        if row is None or row.control != "CLOSE" or row.severity is None:
            return None
        is_worse = last is not None and SEVERITY[last.severity].rank < SEVERITY[row.severity].rank
        return None if is_worse else row

    def last_closing(self, transition: IncidentTransition) -> int:
        """Return when an incident, or its parent, was last closed or opened again; 0: never."""
        rows = map(self.closings.get, (transition.incident_id, transition.parent or ""))
        return next((row.time for row in rows if row is not None), 0)

    def silenced(self, transition: IncidentTransition, now: int) -> str | None:
        """Return the id of an active silence that matches a transition, or None."""
        return next((silence.control_id for silence in self.active(now) if _covers(silence, transition)), None)


def resolved_by(row: AlertControl, transition: IncidentTransition) -> IncidentTransition:
    """Return a transition as the resolution of its incident by a person who closed it, or the one that absorbs it."""
    return msgspec.structs.replace(
        transition,
        transition="RESOLVED",
        time=max(row.time, transition.time),
        resolution=f"closed by {row.author}: {row.reason}",
    )


def _covers(silence: AlertControl, transition: IncidentTransition) -> bool:
    wanted = ((silence.cluster, transition.cluster), (silence.group, transition.group), (silence.code, transition.code))
    return all(pattern is None or fnmatchcase(value, pattern) for pattern, value in wanted)


_OPENING = {"OPENED", "ESCALATED"}
_PASSING = {"SILENCED", "UNDECIDED"}
"""Reasons that hold an incident back from every channel only until they end; `OFF_HOURS` does so for one channel."""
_NOT_SENT = {"RECLASSIFIED", "DEESCALATED"}
"""Transitions that are never sent; they do not change what else holds the incident back."""
_SENT_MAX = 1_000
"""The number of send times kept for the rate limit, which counts fewer."""


@dataclass
class LastAlert:
    """The last alert about an incident to one channel."""

    severity: Severity
    time: int
    reminders: int


@dataclass
class TrackedIncident:
    """An incident that is not resolved, with its alerts."""

    last: IncidentTransition
    last_alert: dict[str, LastAlert] = field(default_factory=dict)
    """By channel."""
    silenced: bool = False
    """True if its alert is held back by a silence, or because another incident may still explain it."""
    off_hours: set[str] = field(default_factory=set)
    """The channels that are notified when their hours begin."""
    former_ids: tuple[str, ...] = ()
    """Its ids before rebuilds."""


@dataclass
class WaitingAlert:
    """An alert that is not sent yet."""

    alert: Alert
    due: int


@dataclass
class Packed:
    """The alerts of one message, which is the same in every attempt."""

    key: str
    keys: list[str]
    summary: bool


@dataclass
class ChannelQueue:
    """The alerts on their way to one channel, in order."""

    waiting: dict[str, WaitingAlert] = field(default_factory=dict)
    packed: list[Packed] = field(default_factory=list)
    failures: int = 0
    """The number of consecutive failures of the next message."""
    refusals: int = 0
    """The number of rejections among these failures."""
    retry_at: int = 0
    failed_since: int | None = None
    error: str = ""
    sent: deque[int] = field(default_factory=lambda: deque(maxlen=_SENT_MAX))
    """The times of the last sent messages, in epoch milliseconds."""
    notified: set[str] = field(default_factory=set)
    """Incidents that were delivered to the channel and are not resolved there."""

    def unsent(self, incident_id: str) -> Iterator[Alert]:
        """Yield the unsent alerts about an incident."""
        for one in self.waiting.values():
            if one.alert.transition.incident_id == incident_id:
                yield one.alert

    def will_be_notified(self, incident_id: str) -> bool:
        """Return whether the channel has been, or is about to be, notified of an incident."""
        return incident_id in self.notified or any(alert.kind in _OPENING for alert in self.unsent(incident_id))


class AlertState:
    """Open incidents by id and queues of alerts by channel."""

    def __init__(self) -> None:
        self.incidents: dict[str, TrackedIncident] = {}
        self.queues: dict[str, ChannelQueue] = {}
        self._renamed: dict[str, str] = {}
        """Current incident ids by the id before a rebuild, which unsent alerts still have."""

    def apply(self, row: AlertDelivery) -> None:
        """Fold one row."""
        if row.step == "HELD" or row.channel is None:
            self._apply_held(row)
            return
        queue = self.queues.setdefault(row.channel, ChannelQueue())
        if row.step == "QUEUED":
            self._queued(row, row.channel, queue)
        elif row.step == "PACKED":
            message = row.delivery or row.key
            if not queue.packed or queue.packed[-1].key != message:
                queue.packed.append(Packed(message, [], row.reason == "SUMMARY"))
            queue.packed[-1].keys.append(row.key)
        elif row.step == "FAILED":
            queue.failures, queue.retry_at, queue.error = row.attempt, row.due_at or 0, row.detail
            if queue.packed and row.key == queue.packed[0].keys[0]:  # a message has one row per alert
                queue.refusals += row.reason == "REJECTED"
            queue.failed_since = queue.failed_since or row.time
        else:
            self._ended(row, row.channel, queue)

    def deliveries(self, channel: str) -> Iterator[Delivery]:
        """Yield the packed messages for a channel, in order."""
        queue = self.queues.get(channel, ChannelQueue())
        for number, packed in enumerate(queue.packed):
            alerts = tuple(queue.waiting[key].alert for key in packed.keys)
            yield Delivery(packed.key, channel, alerts, packed.summary, attempt=1 if number else queue.failures + 1)

    def standing(self, channel: str) -> Iterator[Alert]:
        """Yield the unresolved alerts delivered to a channel, as its current state."""
        queue = self.queues.setdefault(channel, ChannelQueue())
        for incident_id, incident in self.incidents.items():
            last = incident.last_alert.get(channel)
            if last is not None and incident_id in queue.notified:
                yield Alert(
                    key=key_of(incident.last, channel),
                    kind="OPENED",
                    notified_severity=last.severity,
                    transition=msgspec.structs.replace(incident.last, severity=last.severity),
                )

    def _apply_held(self, row: AlertDelivery) -> None:
        alert = _alert(row)
        if row.reason == "REBUILT" and row.related_id is not None:
            self._rename(row.related_id, alert)
            return
        if alert.transition.transition == "RESOLVED":
            self.incidents.pop(row.incident_id, None)
            return
        incident = self._track(alert)
        if row.channel is not None:
            incident.silenced = False
            incident.off_hours.add(row.channel)
        elif row.reason not in _NOT_SENT:  # the reason that holds for all channels from now on
            incident.silenced = row.reason in _PASSING
            incident.off_hours.clear()
        else:  # a channel that was notified of as much, or worse, has nothing to wait for
            incident.off_hours -= {
                channel
                for channel, last in incident.last_alert.items()
                if SEVERITY[last.severity].rank <= SEVERITY[incident.last.severity].rank
            }

    def _rename(self, former: str, alert: Alert) -> None:
        incident_id = alert.transition.incident_id
        incident = self.incidents.pop(former, TrackedIncident(alert.transition))
        incident.last = alert.transition
        self.incidents[incident_id] = incident
        if former == incident_id:
            return
        incident.former_ids = (*incident.former_ids, former)
        self._renamed = {old: incident_id if new == former else new for old, new in self._renamed.items()}
        self._renamed[former] = incident_id
        self._renamed.pop(incident_id, None)
        for queue in self.queues.values():
            if former in queue.notified:
                queue.notified.remove(former)
                queue.notified.add(incident_id)

    def _queued(self, row: AlertDelivery, channel: str, queue: ChannelQueue) -> None:
        alert = _alert(row)
        queue.waiting[row.key] = WaitingAlert(alert, row.due_at or row.time)
        if alert.kind == "RESOLVED":
            self.incidents.pop(row.incident_id, None)  # the rows of the other channels follow
            return
        incident = self._track(alert)
        incident.silenced = False
        incident.off_hours.discard(channel)
        before = incident.last_alert.get(channel)
        reminders = before.reminders + 1 if before is not None and alert.kind == "REMINDER" else 0
        incident.last_alert[channel] = LastAlert(alert.transition.severity, row.time, reminders)

    def _track(self, alert: Alert) -> TrackedIncident:
        incident = self.incidents.setdefault(alert.transition.incident_id, TrackedIncident(alert.transition))
        incident.last = alert.transition
        return incident

    def _ended(self, row: AlertDelivery, channel: str, queue: ChannelQueue) -> None:
        queue.waiting.pop(row.key, None)
        incident_id = self._renamed.get(row.incident_id, row.incident_id)
        if row.message == "RESOLVED":
            queue.notified.discard(incident_id)
        elif row.step == "SENT":
            queue.notified.add(incident_id)
        elif not queue.will_be_notified(row.incident_id) and incident_id in self.incidents:
            self.incidents[incident_id].last_alert.pop(channel, None)  # without OPENED, no RESOLVED
        packed = next((one for one in queue.packed if row.key in one.keys), None)
        if packed is None:
            return
        packed.keys.remove(row.key)
        if not packed.keys:
            queue.packed.remove(packed)
            queue.failures, queue.refusals, queue.retry_at, queue.failed_since, queue.error = 0, 0, 0, None, ""
            if row.step == "SENT":
                queue.sent.append(row.time)


def _alert(row: AlertDelivery) -> Alert:
    if row.alert is None:
        raise ValueError(f"row {row.number} of alert_deliveries lacks its alert")
    return msgspec.json.decode(row.alert, type=Alert)
