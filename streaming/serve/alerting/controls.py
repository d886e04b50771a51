"""User commands to the alert process: silences, and incidents that are acknowledged, closed or opened again."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import msgspec

from rebalance_model.observe.effects import IncidentTransition
from schemas.rows import AlertControl
from streaming.queries.health import SEVERITY


@dataclass
class Controls:
    """The rows of `alert_controls`, folded."""

    silences: dict[str, AlertControl] = field(default_factory=dict)
    """By id, without those ended by the user."""
    acknowledged: set[str] = field(default_factory=set)
    """The ids of acknowledged incidents, which get no reminders."""
    closings: dict[str, AlertControl] = field(default_factory=dict)
    """By incident: the last row that closes it or opens it again."""

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

        Args:
            incident_id: the incident.
            last: its last transition; None: it is not known to be open.
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
