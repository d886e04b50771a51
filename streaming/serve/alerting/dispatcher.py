"""Decide which channels are notified of a transition.

Each decision is a row of the ledger, folded into the state at once. Nothing here reads a clock or sends anything.

| transition | notified channels |
| --- | --- |
| OPENED, ESCALATED | those of its routes; none while another incident (perhaps) explains it or a silence matches it |
| DEESCALATED, RECLASSIFIED | none |
| RESOLVED | all that were notified of the incident, even during a silence |
| any, once a person has closed the incident and while it is no worse | as RESOLVED, once |

A channel outside the hours of its routes is notified when they begin: that an incident opened or became worse only if
it is still so.
"""

from collections.abc import Iterable
from itertools import takewhile
from typing import Literal

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from schemas.rows import AlertDelivery, DeliveryReason
from streaming.serve.alerting.alert import Alert, Delivery, Kind, delivery_key, key_of
from streaming.serve.alerting.config import OWN_CODES, AlertsConfig, Limit
from streaming.serve.alerting.route import Target, groups_by_itself, remind_after, target, targets
from streaming.serve.alerting.state import (
    AlertState,
    ChannelQueue,
    Controls,
    TrackedIncident,
    WaitingAlert,
    resolved_by,
)

_MINUTE_MS = 60_000
_ENCODER = msgspec.json.Encoder()
REJECTIONS_MAX = 5
"""The number of rejections after which a message is given up, so that it does not block the following ones."""

Step = Literal["HELD", "QUEUED", "PACKED", "SENT", "FAILED", "GIVEN_UP"]


class Dispatcher:
    """Decides on transitions and keeps the state; `take_rows` returns the new rows for the ledger."""

    def __init__(self, config: AlertsConfig, rows: Iterable[AlertDelivery] = ()) -> None:
        """Restore the state from the rows of the ledger, in their order."""
        self.state = AlertState()
        self.controls = Controls()
        self._config = config
        self._number = 0
        self._minute = 0
        self._rows: list[AlertDelivery] = []
        for row in rows:
            self.state.apply(row)
            self._number = row.number

    def take_rows(self) -> list[AlertDelivery]:
        """Return and clear the rows that are not in the ledger yet."""
        rows, self._rows = self._rows, []
        return rows

    def take(self, transition: IncidentTransition, now: int) -> None:
        """Decide on a transition; one that is not newer than the last has no effect."""
        incident = self.state.incidents.get(transition.incident_id)
        if incident is not None and transition.seq <= incident.last.seq:
            return
        transition = self.counted(transition)
        if transition.transition == "RESOLVED":
            self._resolved(transition, incident, now)
        elif transition.transition in {"DEESCALATED", "RECLASSIFIED"}:
            self._hold(transition, transition.transition, now)
        else:
            self._notify(transition, now)

    def catch_up(self, last: Iterable[IncidentTransition], now: int) -> None:
        """Decide on the last transition of every incident if the log of earlier ones is not available.

        New open incidents are sent, and those that have been sent and are over are resolved.
        """
        for transition in map(self.counted, last):
            incident = self.state.incidents.get(transition.incident_id)
            if transition.transition == "RESOLVED":
                if incident is not None:
                    self._resolved(transition, incident, now)
            elif incident is None:
                self._notify(transition, now)
            else:
                self.take(transition, now)

    def rebuilt(self, last: Iterable[IncidentTransition], now: int) -> None:
        """Continue with the incidents of a rebuild; ``last`` is the last transition of each of them.

        Incidents that are still open under the same code and subject are not sent again, even with another id. Those
        that are no longer open are resolved for the notified channels, and new ones are sent.
        """
        transitions = {transition.incident_id: self.counted(transition) for transition in last}
        open_now = {
            _subject(transition): transition
            for transition in transitions.values()
            if transition.transition != "RESOLVED"
        }
        for incident_id, incident in list(self.state.incidents.items()):
            if incident.last.code in OWN_CODES:
                continue
            now_open = open_now.get(_subject(incident.last))
            if now_open is not None:
                self._hold(now_open, "REBUILT", now, related_id=incident_id)
            else:
                never_was = msgspec.structs.replace(incident.last, time=now, seq=incident.last.seq + 1)
                end = transitions.get(incident_id, never_was)
                self._resolved(msgspec.structs.replace(end, transition="RESOLVED"), incident, now)
        for transition in open_now.values():
            if transition.incident_id not in self.state.incidents:  # else it is unchanged
                self._notify(transition, now)

    def counted(self, transition: IncidentTransition) -> IncidentTransition:
        """Return a transition as it counts: RESOLVED if a person has closed its incident, or the one that absorbs it.

        An incident that is worse than when it was closed is open, and so is what it absorbs.
        """
        row = self.controls.closed(transition.incident_id, transition)
        if row is None and transition.parent is not None and transition.is_absorbed:
            parent = self.state.incidents.get(transition.parent)
            row = self.controls.closed(transition.parent, parent.last if parent is not None else None)
        return transition if row is None or transition.transition == "RESOLVED" else resolved_by(row, transition)

    def check_pending(self, now: int) -> None:
        """Send alerts whose silence has ended or whose hours begin, and reminders of incidents that remain open.

        Incidents that a person has closed meanwhile are resolved.
        """
        minute, self._minute = self._minute, now // _MINUTE_MS
        for incident in list(self.state.incidents.values()):
            counted = self.counted(incident.last)
            if counted.transition == "RESOLVED":
                self._resolved(counted, incident, now)
            elif incident.silenced:
                if not _must_wait(incident.last, now) and self.controls.silenced(incident.last, now) is None:
                    self._notify(incident.last, now)
            else:
                if minute != self._minute:  # hours begin with a minute
                    self._begin_hours(incident, now)
                self._remind(incident, now)

    def pack(self, channel: str, keys: list[str], delivery: str, *, summary: bool, now: int) -> None:
        """Combine alerts into one message."""
        waiting = self.state.queues[channel].waiting
        for key in keys:
            self._step("PACKED", channel, waiting[key].alert, now, delivery=delivery,
                       reason="SUMMARY" if summary else None)  # fmt: skip

    def sent(self, delivery: Delivery, now: int) -> None:
        """Record that a channel accepted a message."""
        self._record_each("SENT", delivery, now)

    def failed(self, delivery: Delivery, reason: str, now: int, *, rejected: bool) -> None:
        """Record that a message failed: it is retried later, or given up after repeated rejections."""
        if rejected and self.state.queues[delivery.channel].refusals + 1 >= REJECTIONS_MAX:
            self._give_up(delivery, reason, now)
            return
        retry = self._config.retry
        pause = min(retry.longest, retry.first * 2 ** min(delivery.attempt - 1, 30))
        self._record_each(
            "FAILED", delivery, now, detail=reason, reason="REJECTED" if rejected else None, due=now + pause
        )

    def _resolved(self, transition: IncidentTransition, incident: TrackedIncident | None, now: int) -> None:
        notified = dict(incident.last_alert) if incident is not None else {}
        if not notified:
            self._hold(transition, "NOT_NOTIFIED", now)
        for channel, last in notified.items():
            as_notified = msgspec.structs.replace(transition, severity=last.severity)
            to = target(self._config, as_notified, channel, now)
            at_once = groups_by_itself(self._config, channel)
            pause = 0 if at_once else to.begins - now
            self._queue(transition, channel, "RESOLVED", now, max(to.wait_ms, pause), last.severity)

    def _notify(self, transition: IncidentTransition, now: int) -> None:
        if transition.is_absorbed:
            self._hold(transition, "ABSORBED", now, related_id=transition.parent)
            return
        if _must_wait(transition, now):
            self._hold(transition, "UNDECIDED", now, due=transition.alert_after)
            return
        silence = self.controls.silenced(transition, now)
        if silence is not None:
            self._hold(transition, "SILENCED", now, related_id=silence)
            return
        channels = targets(self._config, transition, now)
        if not channels:
            self._hold(transition, "NO_ROUTE", now)
            return
        for to in channels:
            self._notify_channel(transition, to, now)

    def _notify_channel(self, transition: IncidentTransition, to: Target, now: int) -> None:
        if now < to.begins:
            self._hold(transition, "OFF_HOURS", now, channel=to.channel, due=to.begins)
            return
        incident = self.state.incidents.get(transition.incident_id)
        before = incident.last_alert.get(to.channel) if incident is not None else None
        if before is None:
            self._queue(transition, to.channel, "OPENED", now, to.wait_ms, None)
        else:
            self._queue(transition, to.channel, "ESCALATED", now, to.wait_ms, before.severity)

    def _begin_hours(self, incident: TrackedIncident, now: int) -> None:
        """Notify channels that an incident has waited for, of its last transition, unless something else holds it."""
        last = incident.last
        if not incident.off_hours or last.is_absorbed or _must_wait(last, now):
            return
        begun = [to for to in targets(self._config, last, now) if to.channel in incident.off_hours and to.begins <= now]
        if begun and self.controls.silenced(last, now) is None:
            for to in begun:
                self._notify_channel(last, to, now)

    def _remind(self, incident: TrackedIncident, now: int) -> None:
        transition = incident.last
        if not self.controls.acknowledged.isdisjoint((transition.incident_id, *incident.former_ids)):
            return
        for channel, last in list(incident.last_alert.items()):
            after = remind_after(self._config, transition, channel)
            if not after or now < last.time + after or any(self.state.queues[channel].unsent(transition.incident_id)):
                continue
            is_off = now < target(self._config, transition, channel, now).begins
            if not is_off and self.controls.silenced(transition, now) is None:
                self._queue(transition, channel, "REMINDER", now, 0, last.severity, last.reminders + 1)

    def _give_up(self, delivery: Delivery, reason: str, now: int) -> None:
        self._record_each("GIVEN_UP", delivery, now, detail=reason)
        queue = self.state.queues[delivery.channel]
        for incident_id in dict.fromkeys(alert.transition.incident_id for alert in delivery.alerts):
            if not queue.will_be_notified(incident_id):
                for alert in list(queue.unsent(incident_id)):
                    self._step("GIVEN_UP", delivery.channel, alert, now, detail="it was never opened there")

    def _hold(
        self,
        transition: IncidentTransition,
        reason: DeliveryReason,
        now: int,
        *,
        channel: str | None = None,
        related_id: str | None = None,
        due: int | None = None,
    ) -> None:
        alert = Alert(key=f"{transition.incident_id}:{transition.seq}", kind="OPENED", notified_severity=None,
                      transition=transition)  # fmt: skip
        self._step("HELD", channel, alert, now, reason=reason, related_id=related_id, due=due)

    def _queue(
        self,
        transition: IncidentTransition,
        channel: str,
        kind: Kind,
        now: int,
        wait_ms: int,
        notified_severity: str | None,
        reminder: int = 0,
    ) -> None:
        key = key_of(transition, channel, reminder, self.controls.last_closing(transition))
        self._step("QUEUED", channel, Alert(key=key, kind=kind, notified_severity=notified_severity,
                   transition=transition), now, due=now + wait_ms)  # fmt: skip

    def _record_each(
        self,
        step: Step,
        delivery: Delivery,
        now: int,
        *,
        detail: str = "",
        reason: DeliveryReason | None = None,
        due: int | None = None,
    ) -> None:
        for alert in delivery.alerts:
            self._step(step, delivery.channel, alert, now, delivery=delivery.key, attempt=delivery.attempt,
                       detail=detail, reason=reason, due=due)  # fmt: skip

    def _step(  # noqa: PLR0913  one row's values
        self,
        step: Step,
        channel: str | None,
        alert: Alert,
        now: int,
        *,
        detail: str = "",
        reason: DeliveryReason | None = None,
        related_id: str | None = None,
        delivery: str | None = None,
        attempt: int = 0,
        due: int | None = None,
    ) -> None:
        self._number += 1
        transition = alert.transition
        row = AlertDelivery(
            number=self._number, time=now, step=step, reason=reason, related_id=related_id, detail=detail,
            channel=channel, message=None if step == "HELD" else alert.kind, key=alert.key, delivery=delivery,
            attempt=attempt, due_at=due, cluster=transition.cluster, group=transition.group,
            incident_id=transition.incident_id, seq=transition.seq, code=transition.code, severity=transition.severity,
            alert=_ENCODER.encode(alert).decode() if step in {"HELD", "QUEUED"} else None,
        )  # fmt: skip
        self.state.apply(row)
        self._rows.append(row)


def _subject(transition: IncidentTransition) -> tuple[str, str, str, str]:
    return transition.cluster, transition.group, transition.code, transition.subject


def _must_wait(transition: IncidentTransition, now: int) -> bool:
    """Return whether another incident may still explain this one."""
    return transition.alert_after is not None and not transition.is_absorbed and now < transition.alert_after


AHEAD = 16
"""The number of messages decided at a time, with one commit of the ledger, which takes longer than most messages. Later
alerts must wait for them, so for a slow channel it is one."""


def pack(dispatcher: Dispatcher, channel: str, limit: Limit | None, now: int, ahead: int = AHEAD) -> None:
    """Decide the next messages to a channel if alerts are due and the previous messages are finished.

    A channel without ``limit`` limits by itself, and gets all due alerts at once. ``ahead`` is the maximum number of
    messages.
    """
    queue = dispatcher.state.queues.get(channel)
    if queue is None or queue.packed:
        return
    for _ in range(ahead):
        if not _packed_one(dispatcher, queue, channel, limit, now):
            return


def _packed_one(dispatcher: Dispatcher, queue: ChannelQueue, channel: str, limit: Limit | None, now: int) -> bool:
    packed = {key for one in queue.packed for key in one.keys}
    left = [one for key, one in queue.waiting.items() if key not in packed]
    due = {one.alert.bucket for one in left if one.due <= now}
    chosen = [one for one in left if one.alert.bucket in due]
    if not chosen:
        return False
    summary = False
    if limit is not None:
        sent = len(list(takewhile(lambda time: time > now - limit.span, reversed(queue.sent))))
        free = limit.messages - sent - len(queue.packed)
        if free <= 0:
            return False
        if free > 1 or len(due) == 1:
            chosen = _first_bucket(chosen)
            summary = len(chosen) > limit.alerts
        else:
            summary = True
    keys = [one.alert.key for one in chosen]
    dispatcher.pack(channel, keys, delivery_key(tuple(keys)), summary=summary, now=now)
    return True


def _first_bucket(chosen: list[WaitingAlert]) -> list[WaitingAlert]:
    """Return the alerts of the group that is due first."""
    first = min(chosen, key=lambda one: one.due)
    return [one for one in chosen if one.alert.bucket == first.alert.bucket]
