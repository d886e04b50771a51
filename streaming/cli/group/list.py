"""`rebalance-watch group list`: every group, the unhealthy ones first."""

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
from streaming.queries import words
from streaming.queries.answers import Group


def groups(  # noqa: PLR0913  a command line
    *,
    cluster: ClusterOption = None,
    at: AtOption = None,
    check: CheckOption = False,
    output: FormatOption = "table",
    watch: WatchOption = False,
    every: EveryOption = 2.0,
) -> None:
    """Every group, the unhealthy ones first."""
    from streaming.queries.groups import groups as ask

    found = present(
        lambda model: ask(model, instant(at), cluster), _draw, Group, Output(output, watch, every), current=at is None
    )
    if check and any(group.health != "OK" for group in found):
        raise typer.Exit(3)


def _draw(groups: Sequence[Group], now: int) -> RenderableType:
    if not groups:
        return Text("No group is known yet: `rebalance-watch collect poll` and `rebalance-watch run` watch a cluster.")
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
            Column("age", right=True, spare=True),
            Column("unknown", right=True, spare=True),
            Column("rebalanced", spare=True),
            Column("updated", spare=True),
            Column("open"),
            Column("why"),
        ]
    )
    for group in groups:
        table.add(
            health(group.health),
            *([group.cluster] if several else []),
            group.group,
            words.kind(orderly=group.orderly, message_model=group.message_model, consume_type=group.consume_type),
            words.number(len(group.members)),
            words.number(group.queues),
            Cell(words.number(group.unowned), "yellow" if group.unowned else ""),
            words.total(group.lag, group.lag_unknown, at_least=group.lag_is_at_least),
            words.duration(group.lag_age_ms),
            Cell(words.number(group.lag_unknown), "dim" if not group.lag_unknown else "yellow"),
            words.moment(group.last_rebalance, now),
            words.moment(group.time, now),
            words.open_incidents(group.incidents.critical, group.incidents.warning, group.incidents.info),
            group.health_reason,
        )
    return table
