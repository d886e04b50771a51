"""`rebalance-watch group rebalances`: list the rebalances of a group with cause and cost."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Cell, Column, Grid
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
        return rebalance_grid(found, now) if found else Text(f"No rebalances of {name} in this period.")

    present(
        lambda model: ask(model, name, cluster=cluster, since=instant(since) or 0, until=instant(until), last=last),
        draw,
        Rebalance,
        how,
    )


def rebalance_grid(found: Sequence[Rebalance], now: int) -> Grid:
    """Return a table with one line per rebalance."""
    table = Grid(
        [
            Column("started"),
            Column("cause"),
            Column("members"),
            Column("moved", right=True),
            Column("minimum", right=True, spare=True),
            Column("interrupted", right=True),
            Column("unassigned", right=True),
            Column("duration", right=True, spare=True),
            Column("longest pause", right=True),
            Column("duplicates", spare=True),
            Column("converged", spare=True),
            Column("id", spare=True),
        ]
    )
    for one in found:
        table.add(
            labels.moment(one.start_time, now),
            labels.trigger(one.trigger, one.trigger_client, len(one.causes)),
            f"{len(one.members_before)} → {len(one.members_after)}",
            labels.number(one.queues_moved),
            labels.number(one.queues_moved_min),
            labels.number(one.queues_interrupted),
            Cell(labels.number(one.queues_unassigned), "yellow" if one.queues_unassigned else ""),
            labels.duration(one.end_time - one.start_time),
            labels.pause(one.pause_ms_max, at_most=one.pause_is_at_most),
            labels.estimate(one.reconsumed, one.reconsumed_min, one.reconsumed_max),
            Cell(labels.yes_no(one.converged), "yellow" if one.converged is False else ""),
            one.rebalance_id[:8],
        )
    return table


def _draw_one(one: Rebalance, now: int) -> RenderableType:
    before, after = set(one.members_before), set(one.members_after)
    joined, left = sorted(after - before), sorted(before - after)
    changed = [*(f"{client} joined" for client in joined), *(f"{client} left" for client in left)]
    took = labels.duration(one.end_time - one.start_time)
    longest = labels.pause(one.pause_ms_max, at_most=one.pause_is_at_most)
    median = labels.pause(one.pause_ms_p50, at_most=one.pause_is_at_most)
    duplicates = labels.estimate(one.reconsumed, one.reconsumed_min, one.reconsumed_max)
    moved, minimum = labels.number(one.queues_moved), labels.number(one.queues_moved_min)
    interrupted, unassigned = labels.number(one.queues_interrupted), labels.number(one.queues_unassigned)
    lines = [
        f"from {labels.moment(one.start_time, now)} to {labels.moment(one.end_time, now)} UTC, {took}",
        f"causes: {'; '.join(map(labels.cause, one.causes)) or labels.NOT_KNOWN}",
        f"members: {len(before)} → {len(after)}{''.join(f', {change}' for change in changed)}",
        f"queues: {moved} moved (minimum {minimum}), {interrupted} interrupted, {unassigned} left unassigned",
        f"pauses: longest {longest}, median {median}",
        f"duplicates (estimated): {duplicates}; converged: {labels.yes_no(one.converged)}",
    ]
    head = Text.assemble(
        (f"{one.group} ", "bold"), labels.trigger(one.trigger, one.trigger_client, 0), (f"  {one.rebalance_id}", "dim")
    )
    table = Grid(
        [
            Column("queue"),
            Column("change"),
            Column("from"),
            Column("to"),
            Column("pause", right=True),
            Column("duplicates"),
        ]
    )
    for move in one.moves:
        table.add(
            labels.queue_name(move.topic, move.broker, move.queue_id),
            labels.move_kind(move.kind),
            move.from_client or "unassigned",
            move.to_client or Cell("unassigned", "yellow"),
            labels.pause(move.pause_ms, at_most=move.pause_is_at_most),
            labels.estimate(move.reconsumed, move.reconsumed_min, move.reconsumed_max),
        )
    return Lines(head, Text("\n".join(lines)), Text(""), table) if one.moves else Lines(head, Text("\n".join(lines)))
