"""`rebalance-watch client show`: show one client."""

from typing import Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Grid
from streaming.cli.incident.grid import incident_grid
from streaming.cli.options import (
    AtOption,
    ClusterOption,
    EveryOption,
    FormatOption,
    Output,
    SinceOption,
    WatchOption,
    begin,
    instant,
)
from streaming.cli.output import AsOf, present, section
from streaming.queries import labels
from streaming.queries.columns import CLIENT, INTERVAL
from streaming.queries.columns.column import Context
from streaming.queries.results import ClientDetail


def show(
    client_id: Annotated[str, typer.Argument(metavar="CLIENT", help="Client id.", show_default=False)],
    *,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only in this group.")] = None,
    cluster: ClusterOption = None,
    since: SinceOption = None,
    at: AtOption = None,
    output: FormatOption = "table",
    watch: WatchOption = False,
    every: EveryOption = 2.0,
) -> None:
    """Show one client: version, address, heartbeat and subscriptions, its queues over time, and its incidents."""
    from streaming.queries.clients import client

    present(
        lambda model: client(
            model, client_id, group=group, cluster=cluster, since=begin(model, since, instant(at)), at=instant(at)
        ),
        _draw,
        ClientDetail,
        Output(output, watch, every),
        as_of=AsOf(instant(at)),
    )


def _draw(client: ClientDetail, now: int) -> RenderableType:
    context = Context(client.until, today=now)
    as_of = f"  as of {labels.moment_in_zone(client.until, now)}"
    parts: list[RenderableType] = [Text.assemble((client.client_id, "bold"), (as_of, "dim"))]
    if not client.groups:
        parts.append(Text("in no group"))
    for membership in client.groups:
        values = {column.title.lower(): str(column.value(membership, context)) for column in CLIENT.page[2:]}
        said = ", ".join(f"{title} {text}" for title, text in values.items() if text not in {"", labels.NOT_KNOWN})
        parts.append(Text(f"{membership.group} ({membership.cluster}): {said}"))
    if client.intervals:
        parts += section("Queues over time", Grid.of(INTERVAL.grid, client.intervals, context))
    if client.incidents:
        parts += section("Incidents", incident_grid(client.incidents, now))
    return Lines(*parts)
