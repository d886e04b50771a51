"""`rebalance-watch group list`: list all groups, unhealthy ones first."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Grid
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
from streaming.cli.output import AsOf, present
from streaming.queries.columns import GROUP
from streaming.queries.columns.column import Context
from streaming.queries.results import Group


def groups(
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

    present(
        lambda model: ask(model, instant(at), cluster),
        draw_groups,
        Group,
        Output(output, watch, every),
        as_of=AsOf(instant(at)),
        is_healthy=(lambda listed: all(group.health == "OK" for group in listed)) if check else None,
    )


def draw_groups(groups: Sequence[Group], now: int) -> RenderableType:
    """Return groups as a table."""
    if not groups:
        return Text("No consumer groups: start `rebalance-watch collect poll` and `rebalance-watch run`.")
    several = len({group.cluster for group in groups}) > 1
    return Grid.of(GROUP.grid, groups, Context(now), without=() if several else {"cluster"})
