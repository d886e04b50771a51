"""All groups and open incidents, read in one call, so that the home page shows one state of the tables."""

from dataclasses import dataclass

from streaming.queries.groups import groups
from streaming.queries.incidents import incidents
from streaming.queries.present import Ends, history_ends
from streaming.queries.results import Group, Incident
from streaming.serve.dashboard.parts.cards import Card, cards
from streaming.tables import ReadModel


@dataclass(frozen=True)
class Overview:
    """All groups and open incidents at an instant."""

    ends: Ends
    groups: list[Group]
    incidents: list[Incident]
    """Open incidents that have an alert of their own."""
    cards: list[Card]
    """All open incidents, the worst first."""


def overview(model: ReadModel, at: int | None = None) -> Overview:
    """Read all groups and open incidents.

    Raises:
        UserError: see `history_ends`.
    """
    ends = history_ends(model, at)
    found = incidents(model, only_open=True, at=at)
    return Overview(ends, groups(model, at), [one for one in found if not one.absorbed], cards(found))
