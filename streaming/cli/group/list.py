"""`rebalance-watch group list`: list all groups, unhealthy ones first."""

from collections.abc import Sequence

import typer
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Cell, Column, Grid
from streaming.cli.options import (
    AtOption,
    CheckOption,
    ClusterOption,
    EveryOption,
    FormatOption,
    Output,
    WatchOption,
    instant,
)
from streaming.cli.output import health, present
from streaming.queries import labels
from streaming.queries.results import Group


def groups(  # noqa: PLR0913  a command line
    *,
    cluster: ClusterOption = None,
    at: AtOption = None,
    check: CheckOption = False,
    output: FormatOption = "table",
    watch: WatchOption = False,
    every: EveryOption = 2.0,
) -> None:
    """List all groups, unhealthy ones first."""
    from streaming.queries.groups import groups as ask

    found = present(
        lambda model: ask(model, instant(at), cluster), _draw, Group, Output(output, watch, every), current=at is None
    )
    if check and any(group.health != "OK" for group in found):
        raise typer.Exit(3)


def _draw(groups: Sequence[Group], now: int) -> RenderableType:
    if not groups:
        return Text("No consumer groups yet: start `rebalance-watch collect poll` and `rebalance-watch run`.")
    several = len({group.cluster for group in groups}) > 1
    table = Grid(
        [
            Column("health"),
            *([Column("cluster")] if several else []),
            Column("group"),
            Column("kind", spare=True),
            Column("members", right=True),
            Column("queues", right=True),
            Column("unassigned", right=True),
            Column("lag", right=True),
            Column("lag age", right=True, spare=True),
            Column("lag unknown", right=True, spare=True),
            Column("last rebalance", spare=True),
            Column("updated", spare=True),
            Column("incidents"),
            Column("reason"),
        ]
    )
    for group in groups:
        table.add(
            health(group.health),
            *([group.cluster] if several else []),
            group.group,
            labels.kind(orderly=group.orderly, message_model=group.message_model, consume_type=group.consume_type),
            labels.number(len(group.members)),
            labels.number(group.queues),
            Cell(labels.number(group.unowned), "yellow" if group.unowned else ""),
            labels.total(group.lag, group.lag_unknown, at_least=group.lag_is_at_least),
            labels.duration(group.lag_age_ms),
            Cell(labels.number(group.lag_unknown), "dim" if not group.lag_unknown else "yellow"),
            labels.moment(group.last_rebalance, now),
            labels.moment(group.time, now),
            labels.open_incidents(group.incidents.critical, group.incidents.warning, group.incidents.info),
            group.health_reason,
        )
    return table
