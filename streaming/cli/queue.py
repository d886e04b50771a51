"""`rebalance-watch queue …`: query one queue of a group."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Grid, incident_grid
from streaming.cli.options import (
    HELP,
    METAVAR,
    AtOption,
    ClusterOption,
    GroupOption,
    Output,
    QueueOfAnyGroup,
    SinceOption,
    TopicOption,
    begin,
    instant,
    parse_any_queue,
)
from streaming.cli.output import AsOf, present, section
from streaming.queries import labels
from streaming.queries.columns import INTERVAL, OBSERVATION, QUEUE
from streaming.queries.columns.column import Context
from streaming.queries.results import QueueDetail

if TYPE_CHECKING:
    from streaming.tables import ReadModel

_ROWS = 20
"""The number of observations in a table."""


def show(
    names: Annotated[list[str] | None, typer.Argument(metavar=METAVAR, help=HELP)] = None,
    *,
    group: GroupOption = None,
    topic: TopicOption = None,
    since: SinceOption = None,
    at: AtOption = None,
    cluster: ClusterOption = None,
    output: Output,
) -> None:
    """Show one queue: its state, and over the last hour (--since) owners, offsets, lag, lock and incidents.

    The group may be omitted if only one has the queue, as `queue show Orders@broker-a:3`.
    """
    from streaming.queries.group_at import find_group
    from streaming.queries.known_queues import named_queue
    from streaming.queries.queue_history import queue_detail
    from streaming.queries.queue_owners import only_group_of

    name = parse_any_queue(names, group, topic, "rebalance-watch queue show orders Orders broker-a:0")

    def ask(model: "ReadModel") -> QueueDetail:
        if isinstance(name, QueueOfAnyGroup):
            group_at, mq = only_group_of(model, *name, cluster=cluster, at=instant(at))
        else:
            group_at = find_group(model, name.group, cluster, instant(at))
            mq = named_queue(model, group_at, name.topic, name.name, name.queue_id)
        return queue_detail(model, group_at, mq, None if since is None else begin(model, since, instant(at)))

    present(ask, _draw, QueueDetail, output, as_of=AsOf(instant(at)))


def _draw(detail: QueueDetail, now: int) -> RenderableType:
    history = detail.history
    context = Context(history.until, today=now)
    name = labels.queue_name(history.topic, history.broker, history.queue_id)
    as_of = f"  as of {labels.moment_in_zone(history.until, now)}"
    parts: list[RenderableType] = [Text.assemble((f"{name} of {history.group}", "bold"), (as_of, "dim"))]
    if detail.queue is not None:
        parts.append(Grid.of(QUEUE.grid[1:], [detail.queue], context))
    owners = [INTERVAL["client_id"], *(one for one in INTERVAL.grid if one.name not in {"group", "queue"})]
    parts += section("Owners", Grid.of(owners, history.intervals, context) if history.intervals else Text("unknown"))
    if history.incidents:
        parts += section("Incidents", incident_grid(history.incidents, now, with_group=False))
    if history.observations:
        shown = history.observations[-_ROWS:]
        title = f"Reported (the last {len(shown)} of {len(history.observations)}; --format json has all)"
        parts += section(title, Grid.of(OBSERVATION.grid, shown, context))
    return Lines(*parts)


app = typer.Typer(help="Query one queue of a group over time.", no_args_is_help=True)
app.command("show")(show)


@app.callback()
def _queue() -> None:
    """Make `show` a command of its own."""
