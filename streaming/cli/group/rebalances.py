"""`rebalance-watch group rebalances`: list the rebalances of a group with cause and cost."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Grid
from streaming.cli.options import (
    ClusterOption,
    EveryOption,
    FormatOption,
    GroupArgument,
    GroupOption,
    Output,
    SinceOption,
    UntilOption,
    WatchOption,
    instant,
    named,
)
from streaming.cli.output import present
from streaming.queries import labels
from streaming.queries.columns import MOVE, REBALANCE, Context
from streaming.queries.results import Rebalance


def rebalances(  # noqa: PLR0913  a command line
    group: GroupArgument = None,
    *,
    group_option: GroupOption = None,
    cluster: ClusterOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    last: Annotated[int, typer.Option("--last", "-n", min=1, help="Number of rebalances, newest first.")] = 20,
    one: Annotated[
        str | None, typer.Option("--id", help="One rebalance with all its moves, by id or a prefix of it.")
    ] = None,
    output: FormatOption = "table",
    watch: WatchOption = False,
    every: EveryOption = 2.0,
) -> None:
    """List the rebalances of a group, newest first, with cause, trigger, moved queues and pauses."""
    from streaming.queries.rebalances import rebalance
    from streaming.queries.rebalances import rebalances as ask

    name, how = named(group, group_option), Output(output, watch, every)
    if one is not None:
        present(lambda model: rebalance(model, name, one, cluster), _draw_one, Rebalance, how)
        return

    def draw(found: Sequence[Rebalance], now: int) -> RenderableType:
        if not found:
            return Text(f"No rebalances of {name} in this period.")
        return Grid.of(REBALANCE.grid, found, Context(now))

    present(
        lambda model: ask(model, name, cluster=cluster, since=instant(since) or 0, until=instant(until), last=last),
        draw,
        Rebalance,
        how,
    )


def _draw_one(one: Rebalance, now: int) -> RenderableType:
    context = Context(now)

    def text(name: str) -> str:
        return str(REBALANCE[name].value(one, context))

    before, after = set(one.members_before), set(one.members_after)
    changed = [*(f", {client} joined" for client in sorted(after - before)),
               *(f", {client} left" for client in sorted(before - after))]  # fmt: skip
    lines = [
        f"from {text('start_time')} to {labels.moment_in_zone(one.end_time, now)}, {text('duration')}",
        f"causes: {'; '.join(map(labels.cause, one.causes)) or labels.NOT_KNOWN}",
        f"members: {text('members')}{''.join(changed)}",
        (
            f"queues: {text('queues_moved')} moved (minimum {text('queues_moved_min')}), {text('queues_interrupted')}"
            f" interrupted, {text('queues_unassigned')} left unassigned"
        ),
        f"pauses: longest {text('pause_ms_max')}, median {text('pause_ms_p50')}",
        f"duplicates (estimated): {text('reconsumed')}; converged: {text('converged')}",
    ]
    head = Text.assemble(
        (f"{one.group} ", "bold"), labels.trigger(one.trigger, one.trigger_client, 0), (f"  {one.rebalance_id}", "dim")
    )
    moves: list[RenderableType] = [Text(""), Grid.of(MOVE.grid, one.moves, context)] if one.moves else []
    return Lines(head, Text("\n".join(lines)), *moves)
