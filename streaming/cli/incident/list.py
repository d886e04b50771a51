"""`rebalance-watch incident list`: list open or past incidents."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

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
from streaming.cli.output import AsOf, present
from streaming.queries.health import Severity
from streaming.queries.results import Incident


def incidents(
    *,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only incidents of this group.")] = None,
    cluster: ClusterOption = None,
    code: Annotated[str | None, typer.Option("--code", help="Only this code, such as ORDERED_QUEUE_STUCK.")] = None,
    severity: Annotated[Severity | None, typer.Option(help="Only this severity.")] = None,
    unfold: Annotated[
        bool, typer.Option("--unfold", "-u", help="Include incidents that another one explains.")
    ] = False,
    every_one: Annotated[bool, typer.Option("--all", "-a", help="Include resolved incidents.")] = False,
    resolved: Annotated[bool, typer.Option("--resolved", help="Only resolved incidents.")] = False,
    since: SinceOption = None,
    at: AtOption = None,
    output: FormatOption = "table",
    watch: WatchOption = False,
    every: EveryOption = 2.0,
) -> None:
    """List open incidents, with --all or --since also resolved ones. Open ones come first, then the newest.

    Incidents that another one in the list explains are counted in its line; --unfold lists them.
    """
    from streaming.queries.incidents import incidents as ask

    only_open = since is None and not every_one and not resolved
    present(
        lambda model: ask(
            model,
            cluster=cluster,
            group=group,
            code=code,
            severity=severity,
            only_open=only_open,
            only_resolved=resolved,
            since=begin(model, since, instant(at)),
            at=instant(at),
            unfold=unfold,
        ),
        lambda found, now: _draw(found, now, only_open=only_open),
        Incident,
        Output(output, watch, every),
        as_of=AsOf(instant(at)),
    )


def _draw(listed: Sequence[Incident], now: int, *, only_open: bool) -> RenderableType:
    if listed:
        return incident_grid(listed, now)
    return Text("No open incidents; --all includes resolved ones." if only_open else "No incidents.")
