"""`rebalance-watch group diff`: show the queues whose owner differs between two times."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Grid
from streaming.cli.options import (
    ClusterOption,
    FormatOption,
    GroupArgument,
    GroupOption,
    Output,
    RetryOption,
    TopicOption,
    begin,
    instant,
    named,
)
from streaming.cli.output import AsOf, present
from streaming.queries import labels
from streaming.queries.columns import OWNER_CHANGE
from streaming.queries.columns.column import Context
from streaming.queries.results import OwnerChange

if TYPE_CHECKING:
    from streaming.tables import ReadModel


def diff(
    group: GroupArgument = None,
    *,
    earlier: Annotated[str, typer.Option("--from", help="Earlier time, as for --at of other commands.")],
    later: Annotated[str | None, typer.Option("--to", help="Later time; default: now.")] = None,
    group_option: GroupOption = None,
    cluster: ClusterOption = None,
    topic: TopicOption = None,
    retry: RetryOption = False,
    output: FormatOption = "table",
) -> None:
    """Show the queues of a group whose owner differs between two times."""
    from streaming.queries.group_at import find_group
    from streaming.queries.ownership import diff as ask

    name = named(group, group_option)
    end = instant(later)
    first = 0

    def answer(model: "ReadModel") -> list[OwnerChange]:
        nonlocal first
        first = begin(model, earlier, end)
        return ask(model, find_group(model, name, cluster, first), end, topic, retry=retry)

    def draw(changes: Sequence[OwnerChange], now: int) -> RenderableType:
        if changes:
            return Grid.of(OWNER_CHANGE.grid, changes, Context(now))
        until = "now" if end is None else f"at {labels.moment_in_zone(end, now)}"
        return Text(f"Each queue has the same owner at {labels.moment_in_zone(first, now)} and {until}.")

    present(
        answer,
        draw,
        OwnerChange,
        Output(output),
        as_of=AsOf(end),
    )
