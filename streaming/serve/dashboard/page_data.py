"""The data of the pages, each read in one call, so that a page shows one state of the tables."""

from dataclasses import dataclass

from streaming.queries.clients import clients_of_proxies
from streaming.queries.failed_messages import failed_messages
from streaming.queries.group_at import find_group
from streaming.queries.groups import group_of, groups
from streaming.queries.incidents import incidents, incidents_of
from streaming.queries.lag import lag
from streaming.queries.ownership import intervals, queues_of, unassigned
from streaming.queries.present import Ends, history_ends
from streaming.queries.rebalances import rebalance_totals, rebalances_of
from streaming.queries.results import (
    Client,
    FailedMessages,
    Group,
    Incident,
    Interval,
    LagPoint,
    Queue,
    Rebalance,
    RebalanceTotals,
)
from streaming.serve.dashboard.cards import Card, cards
from streaming.serve.dashboard.moment import Window
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


@dataclass(frozen=True)
class State:
    """A group at an instant."""

    ends: Ends
    group: Group
    queues: list[Queue]
    incidents: list[Incident]
    """The open incidents."""
    failed: list[FailedMessages]
    proxied: tuple[Client, ...] = ()
    """The clients behind proxies."""

    @property
    def consequences(self) -> int:
        """The number of open incidents without an alert of their own: `Group.incidents` does not count them."""
        return sum(one.absorbed for one in self.incidents)


@dataclass(frozen=True)
class History:
    """A group over a period."""

    window: Window
    intervals: list[Interval]
    unowned: frozenset[tuple[str, str, int]]
    """Queues (topic, broker, id) that were unassigned at the beginning of the period."""
    rebalances: list[Rebalance]
    totals: RebalanceTotals
    """What these rebalances have cost together."""
    incidents: list[Incident]
    lag: list[LagPoint]


def overview(model: ReadModel, at: int | None = None) -> Overview:
    """Read all groups and open incidents.

    Raises:
        UserError: see `history_ends`.
    """
    ends = history_ends(model, at)
    found = incidents(model, only_open=True, at=at)
    return Overview(ends, groups(model, at), [one for one in found if not one.absorbed], cards(found))


def state(model: ReadModel, name: str, cluster: str | None, at: int | None) -> State:
    """Read the state of a group at an instant.

    Raises:
        UserError: see `streaming.queries.group_at.find_group`.
    """
    of = find_group(model, name, cluster, at)
    found = incidents_of(model, of, only_open=True)
    ends = history_ends(model, at)
    group = group_of(model, of)
    proxied = clients_of_proxies(model, of, group.proxied_clients)
    return State(ends, group, queues_of(model, of), found, failed_messages(model, of), proxied)


def history(model: ReadModel, name: str, cluster: str | None, span: Window) -> History:
    """Read the history of a group over a period.

    Raises:
        UserError: see `streaming.queries.group_at.find_group`.
    """
    of = find_group(model, name, cluster)
    return History(
        window=span,
        intervals=intervals(model, of, *span),
        unowned=unassigned(model, of._replace(instant=span.since)),
        rebalances=rebalances_of(model, of, *span),
        totals=rebalance_totals(model, of, *span),
        incidents=[
            i
            for i in incidents_of(model, of._replace(instant=span.until), since=span.since)
            if i.opened_at <= span.until
        ],
        lag=lag(model, of, *span),
    )
