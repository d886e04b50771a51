"""Fold incidents: one root for what one cause leads to, the same in each list, count and page.

Incidents of one code, cause, client and broker are one card, and what a card explains is under it. An incident that
names a client or a broker with an incident of its own is explained by that one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.rules import clock_skew, telemetry_gap
from rebalance_model.observe.rules.registry import RULES
from streaming.queries.health import SEVERITY
from streaming.queries.results import Incident
from streaming.queries.rule_text import with_headline

EXPLAINING = frozenset(
    rule.code for rule in RULES if rule.about in {"client", "broker", "cluster"}
) - {clock_skew.RULE.code, telemetry_gap.CODE}  # fmt: skip
"""The codes of incidents of a client or a broker that explain what else is wrong with it; the others only limit what is
known of it."""


@dataclass(frozen=True)
class Card:
    """Incidents of one code, cause, client and broker."""

    incidents: list[Incident]
    """One or more, the worst first, then the oldest."""
    under: list["Card"]
    """The cards that these explain, the worst first."""

    @property
    def first(self) -> Incident:
        """The worst one, whose texts are those of all."""
        return self.incidents[0]

    @property
    def rank(self) -> int:
        """The place of its severity among all, or that of what is shown under it and has alerts of its own."""
        own_alerts = (card.rank for card in self.under if not card.first.absorbed)
        return min((SEVERITY[self.first.severity].rank, *own_alerts))

    @property
    def root(self) -> Incident:
        """The incident that stands for all of the card, with their numbers."""
        below = sum(len(card.incidents) for card in _all_of(self.under))
        counted = sum(incident.consequences for incident in self.incidents)
        numbers = {"alike": len(self.incidents) - 1, "consequences": max(below, counted)}
        return with_headline(self.first.model_copy(update=numbers))


def cards(incidents: Iterable[Incident]) -> list[Card]:
    """Return the cards of incidents, the worst first, then the newest; those explained by an absent one come last."""
    by_parent: dict[str | None, list[Incident]] = {}
    listed = {incident.incident_id: incident for incident in incidents}
    for incident in listed.values():
        by_parent.setdefault(_shown_under(incident, listed), []).append(incident)
    return _cards(by_parent.get(None, ()), by_parent)


def folded(incidents: Iterable[Incident]) -> list[Incident]:
    """Return the roots of incidents, in the order in which they are given.

    One that is open is under an open one only, and never under one of a lesser severity: what makes a group WARN or BAD
    is not hidden.
    """
    given = list(incidents)
    place = {incident.incident_id: number for number, incident in enumerate(given)}
    roots = [card.root for card in cards(given)]
    return sorted(roots, key=lambda root: place[root.incident_id])


def with_parents(incidents: Sequence[Incident], explaining: Iterable[Incident]) -> list[Incident]:
    """Return incidents, each with its parent: the incident of the client or broker that it names.

    Args:
        incidents: the incidents; one that has a parent keeps it.
        explaining: incidents of the same instant, of which those with `EXPLAINING` codes are parents.
    """
    roots: dict[tuple[str, str, str], list[Incident]] = {}
    for root in sorted(explaining, key=_worst_first):
        if root.code in EXPLAINING and root.parent is None and root.subject:
            roots.setdefault((root.cluster, root.group, root.subject), []).append(root)
    made = [_with_parent(one, roots) if one.parent is None and roots else one for one in incidents]
    more = Counter(new.parent for new, old in zip(made, incidents, strict=True) if new.parent != old.parent)
    for number, one in enumerate(made):
        if more[one.incident_id]:
            made[number] = one.model_copy(update={"consequences": one.consequences + more[one.incident_id]})
    return made


def _with_parent(incident: Incident, roots: Mapping[tuple[str, str, str], Sequence[Incident]]) -> Incident:
    for name in _named(incident):
        for group in dict.fromkeys((incident.group, "")):
            for root in roots.get((incident.cluster, group, name), ()):
                if root.incident_id == incident.incident_id:
                    return incident  # it is itself what explains
                if _covers(root, incident):
                    return incident.model_copy(update={"parent": root.incident_id})
    return incident


def _named(incident: Incident) -> Iterator[str]:
    """Yield the client and the broker that an incident names; one of a broker is of no client."""
    about_broker = incident.code in EXPLAINING and incident.subject == incident.broker
    if incident.client_id and not about_broker:
        yield incident.client_id
    if incident.broker:
        yield incident.broker


def _covers(root: Incident, incident: Incident) -> bool:
    """Return whether a root is at least as severe as an incident, and was open while that was."""
    if SEVERITY[root.severity].rank > SEVERITY[incident.severity].rank:
        return False
    if incident.resolved_at is None:
        return root.resolved_at is None
    end = INT64_MAX if root.resolved_at is None else root.resolved_at
    return root.opened_at <= incident.resolved_at and incident.opened_at <= end


def _shown_under(incident: Incident, listed: Mapping[str, Incident]) -> str | None:
    """Return the parent of an incident if it is in the list and not less severe, or over while this one is open."""
    parent = listed.get(incident.parent or "")
    if parent is None or (incident.resolved_at is None and parent.resolved_at is not None):
        return None
    if not incident.absorbed and SEVERITY[parent.severity].rank > SEVERITY[incident.severity].rank:
        return None
    return parent.incident_id


def _worst_first(incident: Incident) -> tuple[int, int, str, str]:
    return SEVERITY[incident.severity].rank, incident.opened_at, incident.code, incident.subject


def _cards(incidents: Sequence[Incident], by_parent: dict[str | None, list[Incident]]) -> list[Card]:
    kinds: dict[tuple[object, ...], list[Incident]] = {}
    for one in sorted(incidents, key=lambda i: (i.opened_at, i.code, i.subject)):
        kind = (one.cluster, one.group, one.code, one.sub_cause, one.client_id, one.broker, one.resolved_at is None)
        kinds.setdefault(kind if one.queue_id is not None else (one.incident_id,), []).append(one)
    runs = [sorted(run, key=_worst_first) for equal in kinds.values() for run in _at_one_time(equal)]
    made = [Card(run, _under(run, by_parent)) for run in runs]
    return sorted(made, key=lambda c: (c.first.absorbed, c.rank, -c.first.opened_at, c.first.code, c.first.subject))


def _under(incidents: Sequence[Incident], by_parent: dict[str | None, list[Incident]]) -> list[Card]:
    return _cards([child for incident in incidents for child in by_parent.pop(incident.incident_id, ())], by_parent)


def _at_one_time(incidents: Iterable[Incident]) -> list[list[Incident]]:
    """Divide incidents, the oldest first, where one opened after all before it were over."""
    runs: list[list[Incident]] = []
    end = -1
    for incident in incidents:
        if incident.opened_at > end:
            runs.append([])
        runs[-1].append(incident)
        end = max(end, INT64_MAX if incident.resolved_at is None else incident.resolved_at)
    return runs


def _all_of(cards: Iterable[Card]) -> Iterator[Card]:
    for card in cards:
        yield card
        yield from _all_of(card.under)
