"""`rebalance-watch group rebalances`: when a group rebalanced, why, and what it cost."""

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
from streaming.queries import words
from streaming.queries.answers import Rebalance


def rebalances(  # noqa: PLR0913  a command line
    group: GroupArgument = None,
    *,
    group_option: GroupOption = None,
    cluster: ClusterOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    last: Annotated[int, typer.Option("--last", "-n", min=1, help="The newest so many.")] = 20,
    one: Annotated[
        str | None, typer.Option("--id", help="One of them, with every move: its id, or how it begins.")
    ] = None,
    output: FormatOption = "table",
    watch: WatchOption = False,
    every: EveryOption = 2.0,
) -> None:
    """When a group rebalanced, newest first: why, who did it, what moved, how long queues paused."""
    from streaming.queries.rebalances import rebalance
    from streaming.queries.rebalances import rebalances as ask

    name, how = named(group, group_option), Output(output, watch, every)
    if one is not None:
        present(lambda model: rebalance(model, name, one, cluster), _draw_one, Rebalance, how)
        return

    def draw(found: Sequence[Rebalance], now: int) -> RenderableType:
        return rebalance_grid(found, now) if found else Text(f"No rebalance of {name} is known in that time.")

    present(
        lambda model: ask(model, name, cluster=cluster, since=instant(since) or 0, until=instant(until), last=last),
        draw,
        Rebalance,
        how,
    )


def rebalance_grid(found: Sequence[Rebalance], now: int) -> Grid:
    """A line for each."""
    table = Grid(
        [
            Column("began"),
            Column("cause"),
            Column("members"),
            Column("moved", right=True),
            Column("minimum", right=True, spare=True),
            Column("interrupted", right=True),
            Column("unassigned", right=True),
            Column("took", right=True, spare=True),
            Column("longest pause", right=True),
            Column("duplicates", spare=True),
            Column("converged", spare=True),
            Column("id", spare=True),
        ]
    )
    for one in found:
        table.add(
            words.moment(one.start_time, now),
            words.trigger(one.trigger, one.trigger_client, len(one.causes)),
            f"{len(one.members_before)} → {len(one.members_after)}",
            words.number(one.queues_moved),
            words.number(one.queues_moved_min),
            words.number(one.queues_interrupted),
            Cell(words.number(one.queues_unassigned), "yellow" if one.queues_unassigned else ""),
            words.duration(one.end_time - one.start_time),
            words.pause(one.pause_ms_max, at_most=one.pause_is_at_most),
            words.estimate(one.reconsumed, one.reconsumed_min, one.reconsumed_max),
            Cell(words.yes_no(one.converged), "yellow" if one.converged is False else ""),
            one.rebalance_id[:8],
        )
    return table


def _draw_one(one: Rebalance, now: int) -> RenderableType:
    before, after = set(one.members_before), set(one.members_after)
    came, went = sorted(after - before), sorted(before - after)
    changed = [*(f"{client} came" for client in came), *(f"{client} went" for client in went)]
    took = words.duration(one.end_time - one.start_time)
    longest = words.pause(one.pause_ms_max, at_most=one.pause_is_at_most)
    median = words.pause(one.pause_ms_p50, at_most=one.pause_is_at_most)
    twice = words.estimate(one.reconsumed, one.reconsumed_min, one.reconsumed_max)
    moved, fewest = words.number(one.queues_moved), words.number(one.queues_moved_min)
    interrupted, unassigned = words.number(one.queues_interrupted), words.number(one.queues_unassigned)
    facts = [
        f"from {words.moment(one.start_time, now)} to {words.moment(one.end_time, now)} UTC, {took}",
        f"causes: {'; '.join(map(words.cause, one.causes)) or words.NOT_KNOWN}",
        f"members: {len(before)} → {len(after)}{''.join(f', {change}' for change in changed)}",
        f"queues: {moved} moved (minimum {fewest}), {interrupted} interrupted, {unassigned} left unassigned",
        f"pauses: longest {longest}, median {median}",
        f"duplicates (estimated): {twice}; converged: {words.yes_no(one.converged)}",
    ]
    head = Text.assemble(
        (f"{one.group} ", "bold"), words.trigger(one.trigger, one.trigger_client, 0), (f"  {one.rebalance_id}", "dim")
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
            words.queue_name(move.topic, move.broker, move.queue_id),
            words.move_kind(move.kind),
            move.from_client or "unassigned",
            move.to_client or Cell("unassigned", "yellow"),
            words.pause(move.pause_ms, at_most=move.pause_is_at_most),
            words.estimate(move.reconsumed, move.reconsumed_min, move.reconsumed_max),
        )
    return Lines(head, Text("\n".join(facts)), Text(""), table) if one.moves else Lines(head, Text("\n".join(facts)))
