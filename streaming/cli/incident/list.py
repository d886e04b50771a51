"""`rebalance-watch incident list`: what is open, or was."""

from collections.abc import Sequence
from typing import Annotated, Literal

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
    instant,
)
from streaming.cli.output import present
from streaming.queries.answers import Incident


def incidents(  # noqa: PLR0913  a command line
    *,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only those of this group.")] = None,
    cluster: ClusterOption = None,
    code: Annotated[str | None, typer.Option("--code", help="Only these, such as ORDERED_QUEUE_STUCK.")] = None,
    severity: Annotated[Literal["info", "warning", "critical"] | None, typer.Option(help="Only these.")] = None,
    unfold: Annotated[bool, typer.Option("--unfold", "-u", help="Those that another one explains, too.")] = False,
    every_one: Annotated[bool, typer.Option("--all", "-a", help="Those that are over, too.")] = False,
    since: SinceOption = None,
    at: AtOption = None,
    output: FormatOption = "table",
    watch: WatchOption = False,
    every: EveryOption = 2.0,
) -> None:
    """Show what is open now, or at a time; with --all or --since what is over, too. Open ones first, then the newest.

    What another incident in the list explains is counted in its line; --unfold lists it.
    """
    from streaming.queries.incidents import incidents as ask

    only_open = since is None and not every_one
    present(
        lambda model: ask(
            model,
            cluster=cluster,
            group=group,
            code=code.upper() if code is not None else None,
            severity=severity,
            only_open=only_open,
            since=instant(since) or 0,
            at=instant(at),
            unfold=unfold,
        ),
        lambda found, now: _draw(found, now, only_open=only_open),
        Incident,
        Output(output, watch, every),
    )


def _draw(found: Sequence[Incident], now: int, *, only_open: bool) -> RenderableType:
    if found:
        return incident_grid(found, now)
    return Text("No such incident is open; --all shows those that are over." if only_open else "No such incident.")
