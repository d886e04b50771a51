"""Who is told of a transition, and why not.

Each decision is a row of the ledger, folded into the book at once. Nothing here reads a clock or sends anything.

| transition | whom it is told |
| --- | --- |
| OPENED, ESCALATED | the channels of its routes; nobody while a parent explains it or may yet, or a silence covers it |
| DEESCALATED, RECLASSIFIED | nobody |
| RESOLVED | every channel that was told of the incident, silence or not; nobody else |
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from schemas.rows import AlertDelivery
from streaming.alerting.alert import Alert, Delivery, Kind, key_of
from streaming.alerting.book import REBUILT, REFUSED, SILENCED, SUMMARY, UNDECIDED, Book, Known
from streaming.alerting.config import JOB_SILENT, SOURCE_SILENT, AlertsConfig
from streaming.alerting.controls import Controls
from streaming.alerting.route import remind_after, targets, wait

_ENCODER = msgspec.json.Encoder()
REJECTIONS_MAX = 5
"""A message that a channel has refused so often, because of what it holds, is given up: it would hold up the others."""

Step = Literal["HELD", "QUEUED", "PACKED", "SENT", "FAILED", "GIVEN_UP"]


class Desk:
    """Decides, and keeps the book; the rows that were made since the last `take_rows` are the ledger's next ones."""

    def __init__(self, config: AlertsConfig, rows: Iterable[AlertDelivery] = ()) -> None:
        """Go on from the ledger's rows, in their order."""
        self.book = Book()
        self.controls = Controls()
        self._config = config
        self._number = 0
        self._rows: list[AlertDelivery] = []
        for row in rows:
            self.book.apply(row)
            self._number = row.number

    def take_rows(self) -> list[AlertDelivery]:
        """The rows that are not in the ledger yet."""
        rows, self._rows = self._rows, []
        return rows

    def take(self, transition: IncidentTransition, now: int) -> None:
        """Decide on a transition; one that was decided before, or is older, changes nothing."""
        known = self.book.known.get(transition.incident_id)
        if known is not None and transition.seq <= known.last.seq:
            return
        if transition.transition == "RESOLVED":
            self._resolved(transition, known, now)
        elif transition.transition in {"DEESCALATED", "RECLASSIFIED"}:
            self._hold(transition, transition.transition, now)
        else:
            self._tell(transition, now)

    def catch_up(self, last: Iterable[IncidentTransition], now: int) -> None:
        """Decide on the last transition of every incident, where the log of what came before is not there (any more).

        Those that are open and not known yet are told, and those that are known to be told and over are closed.
        """
        for transition in last:
            known = self.book.known.get(transition.incident_id)
            if transition.transition == "RESOLVED":
                if known is not None:
                    self._resolved(transition, known, now)
            elif known is None:
                self._tell(transition, now)
            else:
                self.take(transition, now)

    def rebuilt(self, last: Iterable[IncidentTransition], now: int) -> None:
        """Go on with other incidents, after a rebuild; ``last`` is the last transition of every one of them.

        Of what was open and is, under the same code and subject, nobody is told again, whatever its id is now. What is
        not open any more is resolved for who was told of it, and what nobody knows is told.
        """
        transitions = {one.incident_id: one for one in last}
        open_now = {_subject(one): one for one in transitions.values() if one.transition != "RESOLVED"}
        for incident_id, known in list(self.book.known.items()):
            if known.last.code in {JOB_SILENT, SOURCE_SILENT}:
                continue
            now_open = open_now.get(_subject(known.last))
            if now_open is not None:
                self._hold(now_open, f"{REBUILT} {incident_id}", now)
            else:
                never_was = msgspec.structs.replace(known.last, time=now, seq=known.last.seq + 1)
                end = transitions.get(incident_id, never_was)
                self._resolved(msgspec.structs.replace(end, transition="RESOLVED"), known, now)
        for transition in open_now.values():
            known_now = self.book.known.get(transition.incident_id)
            if known_now is None:
                self._tell(transition, now)

    def look_again(self, now: int) -> None:
        """Tell what a silence held back that is over, and remind of what is open for long."""
        for known in list(self.book.known.values()):
            if known.silenced:
                if not _must_wait(known.last, now) and self.controls.silenced(known.last, now) is None:
                    self._tell(known.last, now)
            else:
                self._remind(known, now)

    def pack(self, channel: str, keys: list[str], delivery: str, *, summary: bool, now: int) -> None:
        """These alerts go as one message."""
        waiting = self.book.lanes[channel].waiting
        for key in keys:
            self._step("PACKED", channel, waiting[key].alert, now, delivery=delivery, detail=SUMMARY if summary else "")

    def sent(self, delivery: Delivery, now: int) -> None:
        """A channel has taken a message."""
        self._all("SENT", delivery, now)

    def failed(self, delivery: Delivery, reason: str, now: int, *, rejected: bool) -> None:
        """A channel has not taken a message: it is tried again later, or given up if it is to blame itself."""
        if rejected and self.book.lanes[delivery.channel].refusals + 1 >= REJECTIONS_MAX:
            self._give_up(delivery, reason, now)
            return
        retry = self._config.retry
        pause = min(retry.longest, retry.first * 2 ** min(delivery.attempt - 1, 30))
        self._all("FAILED", delivery, now, detail=f"{REFUSED}: {reason}" if rejected else reason, due=now + pause)

    def _resolved(self, transition: IncidentTransition, known: Known | None, now: int) -> None:
        told = dict(known.told) if known is not None else {}
        if not told:
            self._hold(transition, "NOT_TOLD", now)
        for channel, last in told.items():
            self._queue(transition, channel, "RESOLVED", now, wait(self._config, transition, channel), last.severity)

    def _tell(self, transition: IncidentTransition, now: int) -> None:
        if transition.parent is not None:
            self._hold(transition, f"ABSORBED by {transition.parent}", now)
            return
        if _must_wait(transition, now):
            self._hold(transition, f"{UNDECIDED} until {transition.alert_after}", now)
            return
        silence = self.controls.silenced(transition, now)
        if silence is not None:
            self._hold(transition, f"{SILENCED} by {silence}", now)
            return
        found = targets(self._config, transition)
        if not found:
            self._hold(transition, "NO_ROUTE", now)
            return
        known = self.book.known.get(transition.incident_id)
        told = dict(known.told) if known is not None else {}
        for channel, wait_ms in found:
            before = told.get(channel)
            if before is None:
                self._queue(transition, channel, "OPENED", now, wait_ms, None)
            else:
                self._queue(transition, channel, "ESCALATED", now, wait_ms, before.severity)

    def _remind(self, known: Known, now: int) -> None:
        transition = known.last
        if not self.controls.acknowledged.isdisjoint((transition.incident_id, *known.former_ids)):
            return
        for channel, told in list(known.told.items()):
            after = remind_after(self._config, transition, channel)
            if not after or now < told.time + after or any(self.book.lanes[channel].unsent(transition.incident_id)):
                continue
            if self.controls.silenced(transition, now) is None:
                self._queue(transition, channel, "REMINDER", now, 0, told.severity, told.reminders + 1)

    def _give_up(self, delivery: Delivery, reason: str, now: int) -> None:
        self._all("GIVEN_UP", delivery, now, detail=reason)
        lane = self.book.lanes[delivery.channel]
        for incident_id in dict.fromkeys(alert.transition.incident_id for alert in delivery.alerts):
            if not lane.will_hear(incident_id):
                for alert in list(lane.unsent(incident_id)):
                    self._step("GIVEN_UP", delivery.channel, alert, now, detail="it was never opened there")

    def _hold(self, transition: IncidentTransition, why: str, now: int) -> None:
        alert = Alert(key=f"{transition.incident_id}:{transition.seq}", kind="OPENED", told_severity=None,
                      transition=transition)  # fmt: skip
        self._step("HELD", None, alert, now, detail=why)

    def _queue(  # noqa: PLR0913, PLR0917  one row's facts
        self,
        transition: IncidentTransition,
        channel: str,
        kind: Kind,
        now: int,
        wait_ms: int,
        told: str | None,
        reminder: int = 0,
    ) -> None:
        key = key_of(transition, channel, reminder)
        self._step("QUEUED", channel, Alert(key=key, kind=kind, told_severity=told, transition=transition), now,
                   due=now + wait_ms)  # fmt: skip

    def _all(self, step: Step, delivery: Delivery, now: int, detail: str = "", due: int | None = None) -> None:
        for alert in delivery.alerts:
            self._step(step, delivery.channel, alert, now, delivery=delivery.key, attempt=delivery.attempt,
                       detail=detail, due=due)  # fmt: skip

    def _step(  # noqa: PLR0913  one row's facts
        self,
        step: Step,
        channel: str | None,
        alert: Alert,
        now: int,
        *,
        detail: str = "",
        delivery: str | None = None,
        attempt: int = 0,
        due: int | None = None,
    ) -> None:
        self._number += 1
        of = alert.transition
        row = AlertDelivery(
            number=self._number, time=now, step=step, detail=detail, channel=channel,
            message=None if step == "HELD" else alert.kind, key=alert.key, delivery=delivery, attempt=attempt, due=due,
            cluster=of.cluster, group=of.group, incident_id=of.incident_id, seq=of.seq, code=of.code,
            severity=of.severity,
            alert=_ENCODER.encode(alert).decode() if step in {"HELD", "QUEUED"} else None,
        )  # fmt: skip
        self.book.apply(row)
        self._rows.append(row)


def _subject(of: IncidentTransition) -> tuple[str, str, str, str]:
    return of.cluster, of.group, of.code, of.subject


def _must_wait(transition: IncidentTransition, now: int) -> bool:
    """Whether it is not decided yet if a parent explains the incident."""
    return transition.alert_after is not None and transition.parent is None and now < transition.alert_after
