"""`rebalance-watch allocate`: what would become of a group's queues, were clients to go or come."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Cell, Column, Grid
from streaming.cli.options import (
    AtOption,
    ClusterOption,
    FormatOption,
    GroupArgument,
    GroupOption,
    Output,
    TopicOption,
    instant,
    named,
)
from streaming.cli.output import present, section
from streaming.queries import words
from streaming.queries.answers import Plan, Share

if TYPE_CHECKING:
    from streaming.read_model import ReadModel

_CLIENTS = 40
"""Of more, only those whose queues change are listed."""
_NAMES = 4
"""So many queues are named; of more, how many."""


def allocate(  # noqa: PLR0913  a command line
    group: GroupArgument = None,
    *,
    group_option: GroupOption = None,
    leave: Annotated[list[str] | None, typer.Option(help="A client that goes; may be given again.")] = None,
    join: Annotated[
        list[str] | None, typer.Option(help="A client that comes, by name, or how many: 2; may be given again.")
    ] = None,
    clients: Annotated[
        str | None, typer.Option("--clients", "-i", help="These clients, a,b,c, instead of the members, as allocateMQ.")
    ] = None,
    topic: TopicOption = None,
    strategy: Annotated[str | None, typer.Option(help="Client by client for this strategy, such as AVG.")] = None,
    cluster: ClusterOption = None,
    at: AtOption = None,
    output: FormatOption = "table",
) -> None:
    """What if: who gets which queue, and how many move, under each strategy, if these clients go or come."""
    from streaming.queries.groups import group as ask_group
    from streaming.queries.what_if import STRATEGIES, newcomers, what_if

    name = named(group, group_option)
    if strategy is not None and strategy.upper() not in STRATEGIES:
        raise typer.BadParameter(f"There is no strategy {strategy} to plan with: {', '.join(STRATEGIES)}.")
    given = None if clients is None else [client.strip() for client in clients.split(",") if client.strip()]
    coming: list[str] = []

    def ask(model: "ReadModel") -> list[Plan]:
        members = given if given is not None else ask_group(model, name, cluster, instant(at)).members
        for one in join or ():
            coming.extend(newcomers([*members, *coming], int(one)) if one.isdecimal() else [one])
        return what_if(
            model,
            name,
            clients=given,
            leave=leave or (),
            join=coming,
            topic=topic,
            cluster=cluster,
            at=instant(at),
        )

    def draw(plans: Sequence[Plan], _: int) -> RenderableType:
        change = [
            *([f"without {', '.join(leave)}"] if leave else []),
            *([f"with {', '.join(coming)}"] if coming else []),
            *([f"of {', '.join(given)}"] if given is not None else []),
        ]
        made = any(one.isdecimal() for one in join or ())
        head = f"{name} {', '.join(change) or 'as it is'}"
        note = ["Names decide who gets what, because clients are sorted by them; those that come are guesses."] * made
        return Lines(Text(head, style="bold"), *map(Text, note), *_draw(plans, strategy))

    present(ask, draw, Plan, Output(output))


def _draw(plans: Sequence[Plan], strategy: str | None) -> Iterator[RenderableType]:
    for topic, of_topic in groupby(plans, lambda plan: plan.topic):
        told = list(of_topic)
        yield from section(f"{topic}: {told[0].queues:,} queues", _summary(told))
        detailed = next((plan for plan in told if plan.strategy == (strategy or told[0].strategy).upper()), told[0])
        if not detailed.refused:
            yield from section(f"{topic} by {detailed.strategy}, client by client", _clients(detailed.shares))


def _summary(plans: Sequence[Plan]) -> Grid:
    table = Grid(
        [Column("strategy"), Column("move", right=True), Column("fewest", right=True), Column("queues a client then")]
    )
    for plan in plans:
        if plan.refused:
            table.add(plan.strategy, words.NOT_KNOWN, words.NOT_KNOWN, Cell(f"refuses: {plan.refused}", "yellow"))
            continue
        sizes = [share.then for share in plan.shares if share.then or not share.loses]
        span = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else str(sizes[0])
        idle = sizes.count(0)
        table.add(
            plan.strategy,
            words.number(plan.queues_moved),
            words.number(plan.queues_moved_min),
            f"{span}; {idle} without any" if idle else span,
        )
    return table


def _clients(shares: Sequence[Share]) -> RenderableType:
    changed = [share for share in shares if share.gains or share.loses]
    shown = shares if len(shares) <= _CLIENTS else changed
    table = Grid(
        [Column("client"), Column("now", right=True), Column("then", right=True), Column("gets"), Column("gives")]
    )
    for share in shown:
        table.add(
            share.client_id, words.number(share.now), words.number(share.then), *map(_named, (share.gains, share.loses))
        )
    if len(shown) < len(shares):
        return Lines(table, Text(f"{len(shares) - len(shown):,} clients keep what they have", style="dim"))
    return table


def _named(queues: Sequence[str]) -> str:
    """The topic is said above."""
    names = [queue.partition("@")[2] for queue in queues]
    more = f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    return f"{', '.join(names[:_NAMES])}{more}"
