"""A group over a period: what its lanes, charts and tables show, read in one call as of one state of the tables."""

from dataclasses import dataclass

from streaming.queries.group_at import find_group
from streaming.queries.incidents import incidents_of
from streaming.queries.lag import lag
from streaming.queries.ownership import intervals, unassigned
from streaming.queries.rebalances import rebalance_totals, rebalances_of
from streaming.queries.results import Incident, Interval, LagPoint, Rebalance, RebalanceTotals
from streaming.serve.dashboard.parts.moment import Window
from streaming.tables import ReadModel


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
