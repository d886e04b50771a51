"""`rebalance-watch group rebalances`: list the rebalances of a group with cause and cost."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Grid
from streaming.cli.group.choice import named_group
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
    begin,
    instant,
)
from streaming.cli.output import AsOf, present
from streaming.queries import labels
from streaming.queries.columns import MOVE, REBALANCE
from streaming.queries.columns.column import SHORT_ID, Context
from streaming.queries.results import Rebalance, RebalanceTotals

if TYPE_CHECKING:
    from streaming.tables import ReadModel

_ROWS = 20
"""The number of rebalances in a table, unless the user chooses."""


def rebalances(
    group: GroupArgument = None,
    *,
    group_option: GroupOption = None,
    cluster: ClusterOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    last: Annotated[
        int | None, typer.Option("--last", "-n", min=1, help="Only the newest; in a table 20 unless specified.")
    ] = None,
    rebalance_id: Annotated[
        str | None, typer.Option("--id", help="One rebalance with all its moves, by id or a prefix of it.")
    ] = None,
    output: FormatOption = "table",
    watch: WatchOption = False,
    every: EveryOption = 2.0,
) -> None:
    """List the rebalances of a group, newest first, with cause, trigger, moved queues and pauses, and their totals.

    Duration: from the first cause until the last queue changed its owner. A queue's pause: how long it was not
    consumed while it changed its owner. Total pause: the sum over the queues of a rebalance.
    """
    from streaming.queries.group_at import find_group
    from streaming.queries.rebalances import rebalance, rebalance_totals
    from streaming.queries.rebalances import rebalances as rebalances_in

    name = named_group(group, group_option, "rebalances", cluster, until, output)
    how = Output(output, watch, every)
    if rebalance_id is not None:
        present(
            lambda model: rebalance(model, find_group(model, name, cluster), rebalance_id), _draw_one, Rebalance, how
        )
        return

    end, most = instant(until), last or (_ROWS if output in {"table", "wide"} else None)
    totals: RebalanceTotals | None = None
    first = 0

    def ask(model: "ReadModel") -> list[Rebalance]:
        nonlocal totals, first
        group_at = find_group(model, name, cluster)
        first = begin(model, since, end)
        if output in {"table", "wide"}:
            totals = rebalance_totals(model, group_at, first, end)
        return rebalances_in(model, group_at, first, end, most)

    def draw(listed: Sequence[Rebalance], now: int) -> RenderableType:
        if not listed or totals is None:
            period = f"since {labels.moment_in_zone(first, now)}" if first else "in its history"
            return Text(f"No rebalances of {name} {period}.")
        return rebalance_table(listed, totals, now)

    present(ask, draw, Rebalance, how, as_of=AsOf(end))


def rebalance_table(listed: Sequence[Rebalance], totals: RebalanceTotals, now: int) -> RenderableType:
    """Return rebalances as a table, followed by the totals of their period."""
    return Lines(Grid.of(REBALANCE.grid, listed, Context(now)), Text("\n".join(["", *_totals(totals, listed, now)])))


def _totals(totals: RebalanceTotals, listed: Sequence[Rebalance], now: int) -> Iterator[str]:
    since = labels.moment_in_zone(totals.first or now, now)
    some = f", the newest {len(listed)} shown (-n for more)" if len(listed) < totals.rebalances else ""
    yield f"{labels.number(totals.rebalances)} rebalances since {since}{some}"
    unknown = f", unknown for {labels.number(totals.pauses_unknown)} moves" if totals.pauses_unknown else ""
    yield f"pauses of all queues together: {labels.pause(totals.pause_ms, at_most=totals.pause_is_at_most)}{unknown}"
    if totals.costliest is not None:
        yield f"costliest: {totals.costliest[:SHORT_ID]}, {labels.duration(totals.costliest_pause_ms)}"
    yield "by cause: " + "; ".join(_cause(totals, code, n) for code, n in totals.by_cause.items())


def _cause(totals: RebalanceTotals, code: str, number: int) -> str:
    """Say how many rebalances a cause had, and what they cost together."""
    pause = totals.pause_by_cause.get(code)
    cost = f" ({labels.duration(pause)})" if pause is not None else ""
    return f"{number} {labels.TRIGGERS.get(code, code)}{cost}"


def _draw_one(detail: Rebalance, now: int) -> RenderableType:
    context = Context(now)

    def text(name: str) -> str:
        return str(REBALANCE[name].value(detail, context))

    before, after = set(detail.members_before), set(detail.members_after)
    changed = [*(f", {client} joined" for client in sorted(after - before)),
               *(f", {client} left" for client in sorted(before - after))]  # fmt: skip
    lines = [
        f"from {text('start_time')} to {labels.moment_in_zone(detail.end_time, now)}, {text('duration')}",
        f"causes: {'; '.join(map(labels.cause, detail.causes)) or labels.NOT_KNOWN}",
        f"members: {text('members')}{''.join(changed)}",
        (
            f"queues: {text('queues_moved')} moved ({text('queues_moved_min')} were necessary),"
            f" {text('queues_interrupted')} interrupted, {text('queues_unassigned')} left unassigned"
        ),
        f"pauses: longest {text('pause_ms_max')}, median {text('pause_ms_p50')}, together {text('pause_ms_sum')}",
        f"duplicates (estimated): {text('reconsumed')}; ended as expected: {text('converged')}",
    ]
    head = Text.assemble(
        (f"{detail.group} ", "bold"),
        labels.trigger(detail.trigger, detail.trigger_client, 0),
        (f"  {detail.rebalance_id}", "dim"),
    )
    moves: list[RenderableType] = [Text(""), Grid.of(MOVE.grid, detail.moves, context)] if detail.moves else []
    return Lines(head, Text("\n".join(lines)), *moves)
