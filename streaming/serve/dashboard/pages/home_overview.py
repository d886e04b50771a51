"""All groups and open incidents, read in one call, so that the home page shows one state of the tables."""

from dataclasses import dataclass

from streaming.queries.groups import groups
from streaming.queries.incidents import incidents
from streaming.queries.present import HistoryBounds, history_ends
from streaming.queries.results import Group, Incident
from streaming.queries.roots import Card, cards
from streaming.tables import ReadModel


@dataclass(frozen=True)
class HomeOverview:
    """All groups and open incidents at an instant."""

    ends: HistoryBounds
    groups: list[Group]
    incidents: list[Incident]
    """The roots of the open incidents."""
    cards: list[Card]
    """All open incidents, the worst first."""


def overview(model: ReadModel, at: int | None = None) -> HomeOverview:
    """Read all groups and open incidents.

    Raises:
        UserError: see `history_ends`.
    """
    ends = history_ends(model, at)
    open_now = incidents(model, only_open=True, at=at)
    of_all = cards(open_now)
    return HomeOverview(ends, groups(model, at), [card.root for card in of_all], of_all)
