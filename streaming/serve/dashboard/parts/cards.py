"""Lists of incidents: equal ones of several queues are one card, and what an incident explains is shown under it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streaming.queries.health import SEVERITY
from streaming.queries.results import Incident


@dataclass(frozen=True)
class Card:
    """Incidents of one code, cause, client and parent."""

    incidents: list[Incident]
    """One or more, the oldest first."""
    under: list["Card"]
    """What these explain, the worst first."""

    @property
    def first(self) -> Incident:
        """The oldest one, whose texts are those of all."""
        return self.incidents[0]

    @property
    def rank(self) -> int:
        """The place of its severity among all, or that of what is shown under it and has alerts of its own."""
        own_alerts = (card.rank for card in self.under if not card.first.absorbed)
        return min((SEVERITY[self.first.severity].rank, *own_alerts))


def cards(incidents: Iterable[Incident]) -> list[Card]:
    """Return the cards of incidents, the worst first, then the newest; those explained by an absent one come last."""
    by_parent: dict[str | None, list[Incident]] = {}
    listed = {incident.incident_id: incident for incident in incidents}
    for incident in listed.values():
        by_parent.setdefault(incident.parent if incident.parent in listed else None, []).append(incident)
    return _cards(by_parent.get(None, ()), by_parent)


def _cards(incidents: Sequence[Incident], by_parent: dict[str | None, list[Incident]]) -> list[Card]:
    kinds: dict[tuple[object, ...], list[Incident]] = {}
    for incident in sorted(incidents, key=lambda i: (i.opened_at, i.code, i.subject)):
        kind = (
            incident.cluster,
            incident.group,
            incident.code,
            incident.sub_cause,
            incident.severity,
            incident.client_id,
            incident.parent,
        )
        kinds.setdefault(kind if incident.queue_id is not None else (incident.incident_id,), []).append(incident)
    made = [Card(equal, _under(equal, by_parent)) for equal in kinds.values()]
    return sorted(made, key=lambda c: (c.first.absorbed, c.rank, -c.first.opened_at, c.first.code, c.first.subject))


def _under(incidents: Sequence[Incident], by_parent: dict[str | None, list[Incident]]) -> list[Card]:
    return _cards([child for incident in incidents for child in by_parent.pop(incident.incident_id, ())], by_parent)
