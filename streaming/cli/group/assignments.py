"""`rebalance-watch group assignments`: show owner, expected owner and status of each queue of a group."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Grid
from streaming.cli.group.choice import named_group
from streaming.cli.options import (
    AtOption,
    ClusterOption,
    EveryOption,
    FormatOption,
    GroupArgument,
    GroupOption,
    Output,
    RetryOption,
    TopicOption,
    WatchOption,
    instant,
)
from streaming.cli.output import AsOf, present
from streaming.queries.columns import QUEUE
from streaming.queries.columns.column import Context
from streaming.queries.health import WithoutOwner
from streaming.queries.results import Queue


def assignments(
    group: GroupArgument = None,
    *,
    group_option: GroupOption = None,
    cluster: ClusterOption = None,
    topic: TopicOption = None,
    at: AtOption = None,
    problems: Annotated[
        bool, typer.Option("--problems", help="Problems only: queues that are not OK or have an unexpected owner.")
    ] = False,
    retry: RetryOption = False,
    output: FormatOption = "table",
    watch: WatchOption = False,
    every: EveryOption = 2.0,
) -> None:
    """Show owner, expected owner and status of each queue of a group.

    Lag and waiting time are the last values observed by the chosen time, with their age. The ages of lock, pull and
    consumption refer to the chosen time.
    """
    from streaming.queries.group_at import find_group
    from streaming.queries.groups import last_group_state
    from streaming.queries.ownership import queues
    from streaming.tables import ReadModel

    name = named_group(group, group_option, "assignments", cluster, at, output)
    without_owner = WithoutOwner.UNASSIGNED

    def ask(model: ReadModel) -> list[Queue]:
        nonlocal without_owner
        group_at = find_group(model, name, cluster, instant(at))
        without_owner = last_group_state(model, group_at).without_owner
        of_group = queues(model, group_at, topic, retry=retry)
        return [queue for queue in of_group if not problems or queue.is_problem]

    def draw(rows: Sequence[Queue], now: int) -> RenderableType:
        return Grid.of(QUEUE.grid, rows, Context(now, without_owner)) if rows else Text("No queues.")

    present(ask, draw, Queue, Output(output, watch, every), as_of=AsOf(instant(at)))
