"""`rebalance-watch allocate`: predict the allocation of a group's queues after clients join or leave."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Cell, Grid, GridColumn
from streaming.cli.options import (
    AtOption,
    ClusterOption,
    Format,
    FormatOption,
    GroupArgument,
    GroupOption,
    Output,
    TopicOption,
    instant,
    named,
)
from streaming.cli.output import AsOf, present, section
from streaming.queries import labels
from streaming.queries.plan import Plan

if TYPE_CHECKING:
    from streaming.queries.plan import Departure
    from streaming.queries.what_if import Prediction
    from streaming.tables import ReadModel

_CLIENTS = 40
"""Above this number of clients, only those whose queues change are listed."""


def allocate(
    group: GroupArgument = None,
    *,
    group_option: GroupOption = None,
    leave: Annotated[list[str] | None, typer.Option(help="Client that leaves; repeatable.")] = None,
    join: Annotated[
        list[str] | None, typer.Option(help="Client that joins, or the number of new clients, such as 2; repeatable.")
    ] = None,
    clients: Annotated[
        str | None,
        typer.Option("--clients", "-i", help="Clients a,b,c instead of the current members, as in mqadmin allocateMQ."),
    ] = None,
    topic: TopicOption = None,
    strategy: Annotated[str | None, typer.Option(help="Strategy to show client by client, such as AVG.")] = None,
    by_queue: Annotated[bool, typer.Option("--queues", help="List each queue that moves.")] = False,
    rolling_restart: Annotated[
        bool, typer.Option("--rolling-restart", help="Plan the restart of all members that moves least.")
    ] = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    output: FormatOption = "table",
) -> None:
    """Predict the owners of a group's queues, and the queues moved, under each strategy if clients join or leave."""
    from streaming.queries.group_at import find_group
    from streaming.queries.what_if import what_if

    name = named(group, group_option)
    if rolling_restart:
        if leave or join or clients is not None:
            raise typer.BadParameter("--rolling-restart is of the present members: omit --leave, --join and --clients.")
        _present_restart(name, cluster, instant(at), output)
        return
    given = None if clients is None else [client.strip() for client in clients.split(",") if client.strip()]
    last: Prediction

    def ask(model: "ReadModel") -> list[Plan]:
        nonlocal last
        last = what_if(
            model, find_group(model, name, cluster, instant(at)), clients=given, leave=leave or (), join=join or (),
            topic=topic, strategy=strategy,
        )  # fmt: skip
        return last.plans

    def draw(plans: Sequence[Plan], _: int) -> RenderableType:
        change = [
            *([f"without {', '.join(last.left)}"] if last.left else []),
            *([f"with {', '.join(last.joined)}"] if last.joined else []),
            *([f"of {', '.join(given)}"] if given is not None else []),
        ]
        head = Text(f"{name} {', '.join(change) or 'unchanged'}", style="bold")
        measured = Text(
            labels.measured_moves(last.cost.moves, last.cost.rebalances, last.cost.pause_ms_max), style="dim"
        )
        leaving = section("If it leaves", _departures(last.departures)) if last.departures else []
        drawn = _draw(plans, strategy, last.own, by_queue=by_queue)
        return Lines(head, *map(Text, last.caveats), measured, *leaving, *drawn)

    present(ask, draw, Plan, Output(output), as_of=AsOf(instant(at)))


def _draw(plans: Sequence[Plan], strategy: str | None, own: str, *, by_queue: bool) -> Iterator[RenderableType]:
    for topic, of_topic in groupby(plans, lambda plan: plan.topic):
        same_topic = list(of_topic)
        yield from section(f"{topic}: {same_topic[0].queues:,} queues", _summary(same_topic, own))
        first = same_topic[0]
        detailed = next((plan for plan in same_topic if plan.strategy == (strategy or first.strategy).upper()), first)
        if not detailed.refused:
            yield from section(f"{topic} with {detailed.strategy}, by client", _clients(detailed))
            if by_queue:
                yield from section(f"{topic} with {detailed.strategy}, by queue", _moves(detailed))


def _summary(plans: Sequence[Plan], own: str) -> Grid:
    table = Grid(
        [
            GridColumn("strategy"), GridColumn("moved", right=True), GridColumn("necessary", right=True),
            GridColumn("pause each", right=True), GridColumn("duplicates", right=True), GridColumn("queues per client"),
        ]
    )  # fmt: skip
    for plan in plans:
        name = f"{plan.strategy} (current)" if plan.strategy == own else plan.strategy
        if plan.refused:
            table.add(name, *[labels.NOT_KNOWN] * 4, Cell(f"not possible: {plan.refused}", "yellow"))
            continue
        table.add(
            name,
            labels.number(plan.queues_moved),
            labels.number(plan.queues_moved_min),
            labels.pause(plan.pause_ms, at_most=plan.pause_is_at_most),
            labels.number(plan.duplicates),
            labels.queues_per_client(plan.sizes, plan.queues_unassigned),
        )
    return table


def _departures(ways: Sequence["Departure"]) -> Grid:
    table = Grid([GridColumn("way"), GridColumn("wait"), GridColumn("measured"), GridColumn("why", spare=True)])
    for way in ways:
        table.add(way.label.lower(), way.bound, labels.measured_pauses(way.measured_moves, way.pause_ms), way.reason)
    return table


def _moves(plan: Plan) -> Grid:
    table = Grid([GridColumn("queue"), GridColumn("from"), GridColumn("to")])
    for move in plan.moves:
        table.add(move.queue, move.from_client or "unassigned", move.to_client or "unassigned")
    return table


def _present_restart(name: str, cluster: str | None, at: int | None, output: Format) -> None:
    from streaming.queries.group_at import find_group
    from streaming.queries.rolling_restart import RollingRestart, rolling_restart

    def draw(plan: RollingRestart, _: int) -> RenderableType:
        steps = Grid([
            GridColumn("restart"), GridColumn("queues", right=True), GridColumn("moved alone", right=True),
            GridColumn("moved overlapped", right=True),
        ])  # fmt: skip
        for step in plan.steps:
            steps.add(step.client_id, *map(labels.number, (step.queues, step.moved, step.moved_overlapped)))
        head = Text(f"{name}: restart of {len(plan.steps):,} members under {plan.strategy}", style="bold")
        return Lines(head, *map(Text, plan.warnings), *map(Text, plan.sentences), "", steps)

    present(
        lambda model: rolling_restart(model, find_group(model, name, cluster, at)), draw, RollingRestart,
        Output(output), as_of=AsOf(at),
    )  # fmt: skip


def _clients(plan: Plan) -> RenderableType:
    shares = plan.listed(_CLIENTS)
    table = Grid(
        [
            GridColumn("client"),
            GridColumn("before", right=True),
            GridColumn("after", right=True),
            GridColumn("gains"),
            GridColumn("loses"),
        ]
    )
    for share in shares:
        table.add(
            share.client_id,
            labels.number(share.now),
            labels.number(share.then),
            *map(labels.queue_ranges, (share.gains, share.loses)),
        )
    if len(shares) < len(plan.shares):
        return Lines(table, Text(f"{len(plan.shares) - len(shares):,} clients keep their queues", style="dim"))
    return table
