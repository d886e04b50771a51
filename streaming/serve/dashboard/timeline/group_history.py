"""A group over a period: what its lanes, charts and tables show, read in one call as of one state of the tables."""

from dataclasses import dataclass

from streaming.queries.group_at import find_group
from streaming.queries.incidents import group_incidents
from streaming.queries.lag import lag
from streaming.queries.ownership import intervals, unassigned
from streaming.queries.rebalances import rebalance_totals, rebalances
from streaming.queries.results import Incident, Interval, LagPoint, Rebalance, RebalanceTotals
from streaming.serve.dashboard.parts.moment import Window
from streaming.tables import ReadModel


@dataclass(frozen=True)
class History:
    """A group over a period."""

    window: Window
    intervals: list[Interval]
    unassigned: frozenset[tuple[str, str, int]]
    """Queues (topic, broker, id) that were unassigned at the beginning of the period."""
    rebalances: list[Rebalance]
    totals: RebalanceTotals
    """What these rebalances have cost together."""
    incidents: list[Incident]
    lag: list[LagPoint]


def history(model: ReadModel, name: str, cluster: str | None, period: Window) -> History:
    """Read the history of a group over a period.

    Raises:
        UserError: see `streaming.queries.group_at.find_group`.
    """
    group_at = find_group(model, name, cluster)
    incidents = group_incidents(model, group_at._replace(instant=period.until), since=period.since)
    return History(
        window=period,
        intervals=intervals(model, group_at, *period),
        unassigned=unassigned(model, group_at._replace(instant=period.since)),
        rebalances=rebalances(model, group_at, *period),
        totals=rebalance_totals(model, group_at, *period),
        incidents=[incident for incident in incidents if incident.opened_at <= period.until],
        lag=lag(model, group_at, *period),
    )
