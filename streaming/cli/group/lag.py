"""`rebalance-watch group lag`: lag and waiting time of a group's topics over time."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from streaming.cli.grid import Grid, GridColumn
from streaming.cli.group.choice import named_group
from streaming.cli.options import (
    ClusterOption,
    EveryOption,
    FormatOption,
    GroupArgument,
    GroupOption,
    Output,
    SinceOption,
    TopicOption,
    UntilOption,
    WatchOption,
    instant,
)
from streaming.cli.output import present
from streaming.queries import labels
from streaming.queries.results import LagPoint

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
    output: FormatOption = "table",
    watch: WatchOption = False,
    every: EveryOption = 2.0,
) -> None:
    """Show the lag of each topic of a group over the last hour (--since), and how long messages wait.

    A bar is the lag at the end of a part of the period, · that it is not known. Where telemetry has ended, the period
    ends with it.
    """
    from streaming.queries.group_at import find_group
    from streaming.queries.lag import lag as ask
    from streaming.queries.present import present as now_of

    name = named_group(group, group_option, "lag", cluster, until, output)

    def points(model: "ReadModel") -> list[LagPoint]:
        end = now_of(model, instant(until))
        begin = end - _HOUR_MS if since is None else instant(since)
        found = ask(model, find_group(model, name, cluster, instant(until)), begin, end, slices)
        return [point for point in found if topic is None or point.topic == topic]

    present(points, lambda found, now: _draw(name, found, now), LagPoint, Output(output, watch, every))


def _draw(name: str, points: Sequence[LagPoint], now: int) -> RenderableType:
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
