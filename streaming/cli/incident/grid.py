"""Render incidents as a table."""

from collections.abc import Sequence

from streaming.cli.grid import Cell, Column, Grid
from streaming.cli.output import severity
from streaming.queries import labels
from streaming.queries.results import Incident

SHORT_ID = 8
"""The characters shown of an id; unique in practice, and `incident show` reports if it is not."""


def incident_grid(incidents: Sequence[Incident], now: int, *, with_group: bool = True) -> Grid:
    """Return a table with one line per incident, titled by its main cause."""
    several = with_group and len({incident.cluster for incident in incidents}) > 1
    table = Grid(
        [
            Column("id"),
            Column("severity", spare=True),
            Column("opened"),
            Column("duration", right=True),
            *([Column("cluster")] if several else []),
            *([Column("group")] if with_group else []),
            Column("incident"),
            Column("subject"),
            Column("client", spare=True),
            Column("explained by", spare=True),
            *([Column("explains", right=True)] if any(incident.consequences for incident in incidents) else []),
        ]
    )
    explains = any(incident.consequences for incident in incidents)
    for incident in incidents:
        ended = incident.resolved_at
        table.add(
            Cell(incident.incident_id[:SHORT_ID], "dim"),
            severity(incident.severity),
            labels.moment(incident.opened_at, now),
            "open" if ended is None else labels.duration(ended - incident.opened_at),
            *([incident.cluster] if several else []),
            *([incident.group or "(cluster)"] if with_group else []),
            severity(incident.severity, incident.title),
            incident.subject or "the group",
            labels.NOT_KNOWN if incident.main_client_id in {None, incident.subject} else str(incident.main_client_id),
            labels.NOT_KNOWN if incident.parent is None else incident.parent[:SHORT_ID],
            *([str(incident.consequences or "")] if explains else []),
        )
    return table
