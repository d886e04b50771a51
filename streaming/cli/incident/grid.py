"""Render incidents as a table."""

from collections.abc import Sequence

from streaming.cli.grid import Grid
from streaming.queries.columns import INCIDENT
from streaming.queries.columns.column import Context
from streaming.queries.results import Incident


def incident_grid(incidents: Sequence[Incident], now: int, *, with_group: bool = True) -> Grid:
    """Return a table with one row per incident, titled by its main cause."""
    several = with_group and len({incident.cluster for incident in incidents}) > 1
    without = {*(() if several else ("cluster",)), *(() if with_group else ("group",))}
    return Grid.of(INCIDENT.grid, incidents, Context(now), without=without)
