"""What holds of the rows of any telemetry, whichever rules there are: checked over cases, recordings and seeds."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rebalance_model.observe.effects import AnyEffect, GroupSnapshot, IncidentTransition


def violations(effects: Iterable[AnyEffect]) -> list[str]:
    """Return each violation once; empty: there is none.

    No open incident has a parent that is resolved, and none has a code that does not apply to its group.
    """
    rows, broken, now = _Known(), dict[str, None](), 0
    for effect in effects:
        if isinstance(effect, GroupSnapshot | IncidentTransition):
            if effect.time > now:
                broken |= dict.fromkeys(rows.violations())
                now = effect.time
            rows.note(effect)
    return list(broken | dict.fromkeys(rows.violations()))


@dataclass
class _Known:
    """The open incidents, and what does not apply, by the rows so far."""

    open: dict[str, IncidentTransition] = field(default_factory=dict)
    inapplicable: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def note(self, effect: GroupSnapshot | IncidentTransition) -> None:
        if isinstance(effect, GroupSnapshot):
            rules = json.loads(effect.coverage).get("inapplicable_rules", ())
            self.inapplicable[effect.cluster, effect.group] = set(rules)
        elif effect.transition == "RESOLVED":
            self.open.pop(effect.incident_id, None)
        else:
            self.open[effect.incident_id] = effect

    def violations(self) -> Iterator[str]:
        for incident in self.open.values():
            if incident.parent is not None and incident.parent not in self.open:
                yield f"{incident.group} {incident.code} {incident.subject}: its parent {incident.parent} is not open"
            if incident.code in self.inapplicable.get((incident.cluster, incident.group), ()):
                yield f"{incident.group} {incident.code} {incident.subject}: it does not apply, and is open"
