"""`rebalance-watch allocate`: what would become of a group's queues, were clients to go or come."""

from collections import defaultdict
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
_BROKERS, _SPANS = 4, 8
"""So many are named of a client's queues; JSON has all."""


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
    from streaming.queries.groups import last_told
    from streaming.queries.subject import subject
    from streaming.queries.what_if import STRATEGIES, coming, what_if

    name = named(group, group_option)
    if strategy is not None and strategy.upper() not in STRATEGIES:
        raise typer.BadParameter(f"There is no strategy {strategy} to plan with: {', '.join(STRATEGIES)}.")
    given = None if clients is None else [client.strip() for client in clients.split(",") if client.strip()]
    joined: list[str] = []
    own = ""

    def ask(model: "ReadModel") -> list[Plan]:
        nonlocal own, joined
        now = last_told(model, subject(model, name, cluster, instant(at)))
        own, joined = words.strategy_name(now.strategy), coming(now.members if given is None else given, join or ())
        return what_if(
            model,
            name,
            clients=given,
            leave=leave or (),
            join=joined,
            topic=topic,
            cluster=cluster,
            at=instant(at),
        )

    def draw(plans: Sequence[Plan], _: int) -> RenderableType:
        change = [
            *([f"without {', '.join(leave)}"] if leave else []),
            *([f"with {', '.join(joined)}"] if joined else []),
            *([f"of {', '.join(given)}"] if given is not None else []),
        ]
        notes = []
        if any(one.isdecimal() for one in join or ()):
            notes.append("Clients are sorted by their names, so those decide who gets what; the new ones are made up.")
        if own not in STRATEGIES:
            notes.append(f"Its own is not among these: {own}.")
        head = Text(f"{name} {', '.join(change) or 'as it is'}", style="bold")
        return Lines(head, *map(Text, notes), *_draw(plans, strategy, own))

    present(ask, draw, Plan, Output(output))


def _draw(plans: Sequence[Plan], strategy: str | None, own: str) -> Iterator[RenderableType]:
    for topic, of_topic in groupby(plans, lambda plan: plan.topic):
        told = list(of_topic)
        yield from section(f"{topic}: {told[0].queues:,} queues", _summary(told, own))
        detailed = next((plan for plan in told if plan.strategy == (strategy or told[0].strategy).upper()), told[0])
        if not detailed.refused:
            yield from section(f"{topic} by {detailed.strategy}, client by client", _clients(detailed.shares))


def _summary(plans: Sequence[Plan], own: str) -> Grid:
    table = Grid(
        [Column("strategy"), Column("move", right=True), Column("fewest", right=True), Column("queues a client then")]
    )
    for plan in plans:
        name = f"{plan.strategy} (its own)" if plan.strategy == own else plan.strategy
        if plan.refused:
            table.add(name, words.NOT_KNOWN, words.NOT_KNOWN, Cell(f"refuses: {plan.refused}", "yellow"))
            continue
        sizes = [share.then for share in plan.shares if share.then or not share.loses]
        span = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else str(sizes[0])
        idle = sizes.count(0)
        table.add(
            name,
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
    """Neighbours together, as ``broker-a:0-3``; the topic is said above."""
    brokers: dict[str, list[int]] = defaultdict(list)
    for queue in queues:
        broker, _, queue_id = queue.partition("@")[2].rpartition(":")
        brokers[broker].append(int(queue_id))
    named = [f"{broker}:{_spans(ids)}" for broker, ids in brokers.items()]
    more = f" and of {len(named) - _BROKERS:,} brokers more" if len(named) > _BROKERS else ""
    return f"{', '.join(named[:_BROKERS])}{more}"


def _spans(ids: Sequence[int]) -> str:
    spans: list[tuple[int, int]] = []
    for one in ids:
        if spans and spans[-1][1] + 1 == one:
            spans[-1] = spans[-1][0], one
        else:
            spans.append((one, one))
    named = [f"{first}" if first == last else f"{first}-{last}" for first, last in spans]
    return ",".join(named[:_SPANS]) + (",…" if len(named) > _SPANS else "")
