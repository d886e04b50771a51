"""`rebalance-watch group assignments`: show owner, expected owner and status of each queue of a group."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Cell, Column, Grid
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
    named,
)
from streaming.cli.output import health, present
from streaming.cli.quantities import lag_of, waiting_of
from streaming.queries import labels
from streaming.queries.results import Queue


def assignments(  # noqa: PLR0913  a command line
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
    from streaming.queries.ownership import queues_of
    from streaming.tables import ReadModel

    name = named(group, group_option)
    without_owner = ""

    def ask(model: ReadModel) -> list[Queue]:
        nonlocal without_owner
        of = find_group(model, name, cluster, instant(at))
        without_owner = last_group_state(model, of).without_owner
        found = queues_of(model, of, topic, retry=retry)
        return [queue for queue in found if not problems or queue.is_problem]

    def draw(queues: Sequence[Queue], now: int) -> RenderableType:
        return queue_grid(queues, now, without_owner) if queues else Text("No queues.")

    present(ask, draw, Queue, Output(output, watch, every), current=at is None)


def queue_grid(queues: Sequence[Queue], now: int, without_owner: str) -> Grid:
    """Return a table with one line per queue.

    Args:
        queues: the queues of one group.
        now: epoch milliseconds; a time on another day is shown with its date.
        without_owner: the label of a queue without a known owner.
    """
    table = Grid(
        [
            Column("queue"),
            Column("owner"),
            Column("since", spare=True),
            Column("expected"),
            Column("lag", right=True),
            Column("lag age", right=True),
            Column("waiting", right=True, spare=True),
            Column("lock age", right=True, spare=True),
            Column("last pull", right=True, spare=True),
            Column("last consumed", right=True, spare=True),
            Column("status"),
        ]
    )
    for queue in queues:
        owner = Cell(without_owner, "yellow" if without_owner == "unassigned" else "")
        expected = Cell("as expected", "dim") if queue.owner and queue.expected_owner == queue.owner else None
        table.add(
            labels.queue_name(queue.topic, queue.broker, queue.queue_id),
            owner if queue.owner is None else queue.owner,
            labels.moment(queue.since, now),
            expected or Cell(queue.expected_owner or labels.NOT_KNOWN, "yellow" if queue.is_elsewhere else ""),
            Cell(lag_of(queue), "dim" if queue.lag_is_stale else ""),
            labels.duration(queue.lag_age_ms),
            Cell(waiting_of(queue), "dim" if queue.waiting_is_stale else ""),
            "none" if queue.locked is False else labels.duration(queue.lock_age_ms),
            labels.duration(queue.pull_age_ms),
            labels.duration(queue.consume_age_ms),
            health(queue.status, queue.status_reason),
        )
    return table
