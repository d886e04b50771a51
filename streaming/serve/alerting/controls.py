"""User commands to the alert process: silences and acknowledgements."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from rebalance_model.observe.effects import IncidentTransition
from schemas.rows import AlertControl


@dataclass
class Controls:
    """The rows of `alert_controls`, folded."""

    silences: dict[str, AlertControl] = field(default_factory=dict)
    """By id, without those ended by the user."""
    acknowledged: set[str] = field(default_factory=set)
    """The ids of acknowledged incidents, which get no reminders."""

    def take(self, rows: Iterable[AlertControl]) -> None:
        """Fold further rows, oldest first."""
        for row in rows:
            if row.control == "SILENCE":
                self.silences[row.control_id] = row
            elif row.control == "END":
                self.silences.pop(row.control_id, None)
            else:
                self.acknowledged.add(row.control_id)

    def active(self, now: int) -> list[AlertControl]:
        """List the active silences, ordered by their end."""
        return sorted(
            (silence for silence in self.silences.values() if silence.until is not None and now < silence.until),
            key=lambda silence: (silence.until, silence.control_id),
        )

    def silenced(self, transition: IncidentTransition, now: int) -> str | None:
        """Return the id of an active silence that matches a transition, or None."""
        return next((silence.control_id for silence in self.active(now) if _covers(silence, transition)), None)


def _covers(silence: AlertControl, transition: IncidentTransition) -> bool:
    wanted = ((silence.cluster, transition.cluster), (silence.group, transition.group), (silence.code, transition.code))
    return all(pattern is None or fnmatchcase(value, pattern) for pattern, value in wanted)
