"""`rebalance-watch group lag|rebalances|diff`: what changed in a group over a period."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Grid, GridColumn
from streaming.cli.group.state import named_group
from streaming.cli.options import (
    ClusterOption,
    FormatOption,
    GroupArgument,
    GroupOption,
    Output,
    RetryOption,
    SinceOption,
    TopicOption,
    UntilOption,
    begin,
    instant,
    named,
)
from streaming.cli.output import AsOf, present
from streaming.queries import labels
from streaming.queries.columns import MOVE, OWNER_CHANGE, REBALANCE
from streaming.queries.columns.column import SHORT_ID, Context
from streaming.queries.results import LagPoint, OwnerChange, Rebalance, RebalanceTotals

if TYPE_CHECKING:
    from streaming.tables import ReadModel

_HOUR_MS = 3_600_000
_BARS = "▁▂▃▄▅▆▇█"
_UNKNOWN = "·"


def lag(
    group: GroupArgument = None,
    *,
    group_option: GroupOption = None,
    cluster: ClusterOption = None,
    topic: TopicOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    slices: Annotated[int, typer.Option("--slices", min=1, max=500, help="Number of equal parts of the period.")] = 40,
    output: Output,
) -> None:
    """Show the lag of each topic of a group over the last hour (--since), and how long messages wait.

    A bar is the lag at the end of a part of the period, · that it is not known. Where telemetry has ended, the period
    ends with it.
    """
    from streaming.queries.group_at import find_group
    from streaming.queries.lag import lag as ask
    from streaming.queries.present import present as now_of

    name = named_group(group, group_option, "lag", cluster, until, output.format)

    def points(model: "ReadModel") -> list[LagPoint]:
        end = now_of(model, instant(until))
        first = end - _HOUR_MS if since is None else begin(model, since, end)
        found = ask(model, find_group(model, name, cluster, instant(until)), first, end, slices)
        return [point for point in found if topic is None or point.topic == topic]

    def draw(listed: Sequence[LagPoint], now: int) -> RenderableType:
        return _draw_lag(name, listed, now)

    present(points, draw, LagPoint, output, as_of=AsOf(instant(until)))


def _draw_lag(name: str, points: Sequence[LagPoint], now: int) -> RenderableType:
    if not points:
        return Text(f"No lag of {name} was reported in this period.")
    of_topic = {topic: list(of) for topic, of in groupby(sorted(points, key=_topic), key=_topic)}
    times = sorted({point.time for point in points})
    grid = Grid(
        [GridColumn("topic"), GridColumn("over time"), *(GridColumn(title, right=True) for title in ("lag", "largest")),
         GridColumn("waiting", spare=True), GridColumn("lag unknown", spare=True)]
    )  # fmt: skip
    for topic, series in of_topic.items():
        lags = [point.lag for point in series if point.lag is not None]
        last = series[-1]
        grid.add(
            topic,
            sparkline([next((point.lag for point in series if point.time == time), None) for time in times]),
            labels.total(last.lag, 0, at_least=last.lag_is_at_least),
            labels.number(max(lags)) if lags else labels.NOT_KNOWN,
            labels.NOT_KNOWN if last.waiting_ms is None else labels.duration(last.waiting_ms),
            f"{last.lag_unknown} queues" if last.lag_unknown else "",
        )
    first, end = (labels.moment_in_zone(time, now) for time in (times[0], times[-1]))
    return Lines(grid, Text(f"from {first} to {end}", style="dim"))


def _topic(point: LagPoint) -> str:
    return point.topic


def sparkline(values: Sequence[int | None]) -> str:
    """Return a bar for each value, from 0 to the largest; of an unknown one a dot."""
    most = max((value for value in values if value is not None), default=0)
    return "".join(_bars(values, max(1, most)))


def _bars(values: Sequence[int | None], most: int) -> Iterator[str]:
    for value in values:
        if value is None:
            yield _UNKNOWN
        else:
            yield _BARS[min(len(_BARS) - 1, -(-value * (len(_BARS) - 1) // most))]


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
    output: Output,
) -> None:
    """List the rebalances of a group, newest first, with cause, trigger, moved queues and pauses, and their totals.

    Duration: from the first cause until the last queue changed its owner. A queue's pause: how long it was not
    consumed while it changed its owner. Total pause: the sum over the queues of a rebalance.
    """
    from streaming.queries.group_at import find_group
    from streaming.queries.rebalances import rebalance, rebalance_totals
    from streaming.queries.rebalances import rebalances as rebalances_in

    name = named_group(group, group_option, "rebalances", cluster, until, output.format)
    if rebalance_id is not None:
        present(
            lambda model: rebalance(model, find_group(model, name, cluster), rebalance_id),
            _draw_rebalance,
            Rebalance,
            output,
        )
        return

    end, most = instant(until), last or (_ROWS if output.format in {"table", "wide"} else None)
    totals: RebalanceTotals | None = None
    first = 0

    def ask(model: "ReadModel") -> list[Rebalance]:
        nonlocal totals, first
        group_at = find_group(model, name, cluster)
        first = begin(model, since, end)
        if output.format in {"table", "wide"}:
            totals = rebalance_totals(model, group_at, first, end)
        return rebalances_in(model, group_at, first, end, most)

    def draw(listed: Sequence[Rebalance], now: int) -> RenderableType:
        if not listed or totals is None:
            period = f"since {labels.moment_in_zone(first, now)}" if first else "in its history"
            return Text(f"No rebalances of {name} {period}.")
        return rebalance_table(listed, totals, now)

    present(ask, draw, Rebalance, output, as_of=AsOf(end))


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


def _draw_rebalance(detail: Rebalance, now: int) -> RenderableType:
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


def diff(
    group: GroupArgument = None,
    *,
    earlier: Annotated[str, typer.Option("--from", help="Earlier time, as for --at of other commands.")],
    later: Annotated[str | None, typer.Option("--to", help="Later time; default: now.")] = None,
    group_option: GroupOption = None,
    cluster: ClusterOption = None,
    topic: TopicOption = None,
    retry: RetryOption = False,
    output: FormatOption = "table",
) -> None:
    """Show the queues of a group whose owner differs between two times."""
    from streaming.queries.group_at import find_group
    from streaming.queries.ownership import diff as ask

    name = named(group, group_option)
    end = instant(later)
    first = 0

    def answer(model: "ReadModel") -> list[OwnerChange]:
        nonlocal first
        first = begin(model, earlier, end)
        return ask(model, find_group(model, name, cluster, first), end, topic, retry=retry)

    def draw(changes: Sequence[OwnerChange], now: int) -> RenderableType:
        if changes:
            return Grid.of(OWNER_CHANGE.grid, changes, Context(now))
        until = "now" if end is None else f"at {labels.moment_in_zone(end, now)}"
        return Text(f"Each queue has the same owner at {labels.moment_in_zone(first, now)} and {until}.")

    present(
        answer,
        draw,
        OwnerChange,
        Output(output),
        as_of=AsOf(end),
    )
