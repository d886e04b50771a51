"""What the alert process knows: the rows of its ledger, folded. A start after a crash folds the same rows."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from schemas.rows import AlertDelivery
from streaming.alerting.alert import Alert, Delivery, key_of

SILENCED = "SILENCED"
"""How `AlertDelivery.detail` begins where a silence holds an alert back: it is told when the silence is over."""
UNDECIDED = "UNDECIDED"
"""How it begins where the incident may yet get a parent that explains it: it is told when none came in time."""
SUMMARY = "SUMMARY"
REFUSED = "REFUSED"
"""How `AlertDelivery.detail` begins where a channel did not take a message because of what it holds."""
REBUILT = "REBUILT"
"""How `AlertDelivery.detail` begins where a rebuild put an incident in the place of the one whose id follows: what was
told of that one was told of this one."""
_OPENING = {"OPENED", "ESCALATED"}
_NOT_TOLD = {"RECLASSIFIED", "DEESCALATED"}
"""Held back as nobody is told such a transition, whatever else holds the incident back."""
_SENT_MAX = 1_000
"""So many times of sent messages are kept for the limit, which counts fewer."""


@dataclass
class Told:
    """What one channel was told of one incident, last."""

    severity: str
    time: int
    reminders: int


@dataclass
class Known:
    """An incident that is not over."""

    last: IncidentTransition
    told: dict[str, Told] = field(default_factory=dict)
    silenced: bool = False
    """It would have been told, but for a silence, or for a parent that may yet explain it."""
    former_ids: tuple[str, ...] = ()
    """Which ids it had before a rebuild."""


@dataclass
class Waiting:
    """An alert that is not sent yet."""

    alert: Alert
    due: int


@dataclass
class Packed:
    """What was decided to go as one message: it will be the same in every attempt."""

    key: str
    keys: list[str]
    summary: bool


@dataclass
class Lane:
    """What is on its way to one channel, in order."""

    waiting: dict[str, Waiting] = field(default_factory=dict)
    packed: list[Packed] = field(default_factory=list)
    """The next messages."""
    failures: int = 0
    """In a row, of the first of them."""
    refusals: int = 0
    """Among those."""
    retry_at: int = 0
    failed_since: int | None = None
    error: str = ""
    sent: deque[int] = field(default_factory=lambda: deque(maxlen=_SENT_MAX))
    """When the last messages were sent."""
    heard: set[str] = field(default_factory=set)
    """Incidents that the channel has taken a message about, and not yet their end."""

    def unsent(self, incident_id: str) -> Iterator[Alert]:
        """What of an incident is still on its way."""
        for one in self.waiting.values():
            if one.alert.transition.incident_id == incident_id:
                yield one.alert

    def will_hear(self, incident_id: str) -> bool:
        """Whether the channel knows of an incident, or is about to."""
        return incident_id in self.heard or any(alert.kind in _OPENING for alert in self.unsent(incident_id))


class Book:
    """Incidents by id and lanes by channel."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self.lanes: dict[str, Lane] = {}
        self._renamed: dict[str, str] = {}
        """By an incident's id of before a rebuild, the one of now: what is still on its way has the former."""

    def apply(self, row: AlertDelivery) -> None:
        """Fold one row."""
        if row.step == "HELD" or row.channel is None:
            self._held(row)
            return
        lane = self.lanes.setdefault(row.channel, Lane())
        if row.step == "QUEUED":
            self._queued(row, row.channel, lane)
        elif row.step == "PACKED":
            message = row.delivery or row.key
            if not lane.packed or lane.packed[-1].key != message:
                lane.packed.append(Packed(message, [], row.detail == SUMMARY))
            lane.packed[-1].keys.append(row.key)
        elif row.step == "FAILED":
            lane.failures, lane.retry_at, lane.error = row.attempt, row.due or 0, row.detail
            if lane.packed and row.key == lane.packed[0].keys[0]:  # a message has a row for each of its alerts
                lane.refusals += row.detail.startswith(REFUSED)
            lane.failed_since = lane.failed_since or row.time
        else:
            self._ended(row, row.channel, lane)

    def deliveries(self, channel: str) -> Iterator[Delivery]:
        """What is packed for a channel, in order."""
        lane = self.lanes.get(channel, Lane())
        for number, packed in enumerate(lane.packed):
            alerts = tuple(lane.waiting[key].alert for key in packed.keys)
            yield Delivery(packed.key, channel, alerts, packed.summary, attempt=1 if number else lane.failures + 1)

    def standing(self, channel: str) -> Iterator[Alert]:
        """What a channel was told, that is not over: as a state, not as news."""
        lane = self.lanes.setdefault(channel, Lane())
        for incident_id, known in self.known.items():
            told = known.told.get(channel)
            if told is not None and incident_id in lane.heard:
                yield Alert(
                    key=key_of(known.last, channel),
                    kind="OPENED",
                    told_severity=told.severity,
                    transition=msgspec.structs.replace(known.last, severity=told.severity),
                )

    def _held(self, row: AlertDelivery) -> None:
        alert = _alert(row)
        if row.detail.startswith(f"{REBUILT} "):
            self._rename(row.detail.removeprefix(f"{REBUILT} "), alert)
            return
        if alert.transition.transition == "RESOLVED":
            self.known.pop(row.incident_id, None)
            return
        known = self._know(alert)
        known.silenced = row.detail.startswith((SILENCED, UNDECIDED)) or (known.silenced and row.detail in _NOT_TOLD)

    def _rename(self, former: str, alert: Alert) -> None:
        """Go on with what is known of an incident under the id that it has now."""
        incident_id = alert.transition.incident_id
        known = self.known.pop(former, Known(alert.transition))
        known.last = alert.transition
        self.known[incident_id] = known
        if former == incident_id:
            return
        known.former_ids = (*known.former_ids, former)
        self._renamed = {old: incident_id if new == former else new for old, new in self._renamed.items()}
        self._renamed[former] = incident_id
        self._renamed.pop(incident_id, None)
        for lane in self.lanes.values():
            if former in lane.heard:
                lane.heard.remove(former)
                lane.heard.add(incident_id)

    def _queued(self, row: AlertDelivery, channel: str, lane: Lane) -> None:
        alert = _alert(row)
        lane.waiting[row.key] = Waiting(alert, row.due or row.time)
        if alert.kind == "RESOLVED":
            self.known.pop(row.incident_id, None)  # the other channels' rows come with it
            return
        known = self._know(alert)
        known.silenced = False
        before = known.told.get(channel)
        reminders = before.reminders + 1 if before is not None and alert.kind == "REMINDER" else 0
        known.told[channel] = Told(alert.transition.severity, row.time, reminders)

    def _know(self, alert: Alert) -> Known:
        known = self.known.setdefault(alert.transition.incident_id, Known(alert.transition))
        known.last = alert.transition
        return known

    def _ended(self, row: AlertDelivery, channel: str, lane: Lane) -> None:
        lane.waiting.pop(row.key, None)
        incident_id = self._renamed.get(row.incident_id, row.incident_id)
        if row.message == "RESOLVED":
            lane.heard.discard(incident_id)
        elif row.step == "SENT":
            lane.heard.add(incident_id)
        elif not lane.will_hear(row.incident_id) and incident_id in self.known:
            self.known[incident_id].told.pop(channel, None)  # what was not opened is not closed
        packed = next((one for one in lane.packed if row.key in one.keys), None)
        if packed is None:
            return
        packed.keys.remove(row.key)
        if not packed.keys:
            lane.packed.remove(packed)
            lane.failures, lane.refusals, lane.retry_at, lane.failed_since, lane.error = 0, 0, 0, None, ""
            if row.step == "SENT":
                lane.sent.append(row.time)


def _alert(row: AlertDelivery) -> Alert:
    if row.alert is None:
        raise ValueError(f"row {row.number} of alert_deliveries lacks its alert")
    return msgspec.json.decode(row.alert, type=Alert)
