"""Charts over time: any series, the lag of a group and its sparkline, and the strip of its health."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

from nicegui import ui

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.health import HEALTH, Health
from streaming.queries.results import LagPoint
from streaming.serve.dashboard.parts.frame import element
from streaming.serve.dashboard.parts.moment import Window

Lines: TypeAlias = dict[str, list[list[float | None]]]
"""The points of each line: time, epoch milliseconds, and value; None: unknown."""
_DASHES = ("solid", "dashed", "dotted")
_FEW = 40
"""The maximum number of points that are shown as such."""
_DAYS_MS = 2 * 86_400_000
"""The length of a period of which the axis shows days instead of times of day."""


def time_chart(lines: Lines, span: Window, at: int | None = None, *, are_steps: bool = True) -> dict[str, object]:
    """Return the options of ECharts for lines over a period.

    Args:
        lines: the lines by their names.
        span: the period.
        at: the instant to mark; None: none.
        are_steps: whether a value holds until the next one, and none is below 0.
    """
    label = "day(time).slice(5)" if span.until - span.since > _DAYS_MS else "clock(time)"
    return {
        "animation": False,
        # as wide as the lanes; the names of the values are within
        "grid": {"left": 0, "right": 0, "top": 24, "bottom": 22},
        "legend": {"top": 0, "right": 0, "itemWidth": 18, "itemHeight": 8, "type": "scroll", "selectedMode": False},
        "tooltip": {"trigger": "axis", "className": "chart-tip", "confine": True},
        "xAxis": {
            "type": "time", "min": span.since, "max": span.until, "axisLine": {"show": False},
            "axisTick": {"show": False},
            "axisLabel": {"hideOverlap": True, ":formatter": f"(time) => rebalanceWatchTimes.{label}"},
            "axisPointer": {"label": {":formatter": "({ value }) => rebalanceWatchTimes.clock(value, true)"}},
        },
        "yAxis": {
            "type": "value", "splitNumber": 3, **({"min": 0, "minInterval": 1} if are_steps else {}),
            "axisLabel": {"inside": True, "margin": 2, "verticalAlign": "bottom", "showMinLabel": False},
            "splitLine": {"lineStyle": {"color": "rgba(128,136,150,0.22)"}},
        },
        "series": [
            _line(name, line, number, at) | ({} if are_steps else {"step": False, "showSymbol": len(line) <= _FEW})
            for number, (name, line) in enumerate(sorted(lines.items()))
        ],
    }  # fmt: skip


def _line(name: str, points: list[list[float | None]], number: int, at: int | None) -> dict[str, object]:
    mark = {"data": [{"xAxis": at}] if at is not None and number == 0 else []}
    return {
        "name": name,
        "type": "line",
        "step": "end",
        "data": points,
        "connectNulls": False,
        "showSymbol": len(points) == 1,
        "symbolSize": 5,
        "lineStyle": {"width": 2, "type": _DASHES[number % len(_DASHES)]},
        "color": ("#5b7fc7", "#c08a3e", "#4f9d8b", "#a86a93")[number % 4],
        "markLine": {
            "silent": True, "symbol": "none", "label": {"show": False}, "animation": False,
            "lineStyle": {"color": "#4677d8", "type": "solid", "width": 1.5}, **mark,
        },
    }  # fmt: skip


class LagChart:
    """A chart with one line per topic, interrupted where the value is unknown or stale."""

    def __init__(
        self,
        name: str,
        title: str,
        label: str,
        value: Callable[[LagPoint], float | None],
        is_bound: Callable[[LagPoint], bool] = lambda _: False,
    ) -> None:
        """Create an empty chart with its title.

        Args:
            name: the part of the page's address.
            title: the title.
            label: the accessible name of the chart.
            value: returns the value of a point.
            is_bound: returns whether it is a lower bound, which the name of the line then says.
        """
        self._value, self._is_bound = value, is_bound
        with element("div", "lane-chart"):
            element("h3", id=name).text = title
            self._chart = ui.echart({"series": []}, renderer="svg").classes("lag-chart")
        self._chart.props(f'role=img aria-label="{label}"')
        self.id = self._chart.id
        """The id of NiceGUI's element, by which the lanes find it."""

    def show(self, points: Iterable[LagPoint], span: Window, at: int | None) -> None:
        """Show a period and the instant in it."""
        options = time_chart(lines_of(points, self._value, self._is_bound), span, at)
        if options != self._chart.options:
            self._chart.options.clear()
            self._chart.options.update(options)
            self._chart.update()


def lines_of(
    points: Iterable[LagPoint], value: Callable[[LagPoint], float | None], is_bound: Callable[[LagPoint], bool]
) -> Lines:
    """Return the line of each topic by its name, which says whether values are lower bounds."""
    lines: Lines = {}
    bounds: dict[str, list[bool]] = {}
    for point in points:
        quantity = value(point)
        lines.setdefault(point.topic, []).append([point.time, quantity])
        if quantity is not None:
            bounds.setdefault(point.topic, []).append(is_bound(point))
    return {_named(topic, bounds.get(topic, [])): line for topic, line in lines.items()}


def _named(topic: str, bounds: list[bool]) -> str:
    return topic if not any(bounds) else f"{topic} (≥)" if all(bounds) else gettext("{topic} (in part ≥)", topic=topic)


SPARKLINE_WIDTH, HEIGHT = 60, 16
"""Size of the picture, in its own unit."""
_EDGE = 1.5
"""The distance of the line from the top and from the bottom, so that all of its width is in the picture."""


class Sparkline(NamedTuple):
    """The line of a group."""

    lines: Sequence[str]
    """The points of each part in which the lag is known, as SVG has them."""
    words: str


def sparkline_of(lags: Sequence[int | None]) -> Sparkline | None:
    """Return the line of a group; None if its lag is unknown all the time.

    Args:
        lags: the lag at the end of each slice of the period, the oldest first; None: unknown.
    """
    known_lags = [lag for lag in lags if lag is not None]
    if not known_lags:
        return None
    step, scale = SPARKLINE_WIDTH / max(1, len(lags) - 1), (HEIGHT - 2 * _EDGE) / max(1, *known_lags)
    lines = []
    for is_known, part in groupby(enumerate(lags), key=lambda one: one[1] is not None):
        if is_known:
            points = [(n * step, HEIGHT - _EDGE - (lag or 0) * scale) for n, lag in part]
            if len(points) == 1:  # a line of one point is not painted
                [(x, y)] = points
                points = [(max(0, x - step / 2), y), (min(SPARKLINE_WIDTH, x + step / 2), y)]
            lines.append(" ".join(f"{x:.1f},{y:.1f}" for x, y in points))
    numbers = {"begin": known_lags[0], "end": known_lags[-1], "most": max(known_lags)}
    words = {name: labels.number(number) for name, number in numbers.items()}
    return Sparkline(lines, gettext("Lag in the period: first {begin}, last {end}, at most {most}", **words))


_WORDS = 6
"""The maximum number of changes that are described one by one."""
_HEIGHT = {"BAD": 16, "WARN": 11, "UNKNOWN": 16, "OK": 5}
"""The height of a slice: like the signs, they differ in shape, not in colour alone."""
STRIP_WIDTH = 4
"""The width of a slice; the unit is the picture's own."""


class Bar(NamedTuple):
    """Successive slices of one health."""

    health: Health
    x: int
    width: int
    height: int


class Strip(NamedTuple):
    """The strip of a group."""

    bars: Sequence[Bar]
    width: int
    words: str


def strip_of(worst: Sequence[Health], length_ms: int) -> Strip:
    """Return the strip of a group by the worst health of each slice, the oldest first.

    Args:
        worst: the health of each slice.
        length_ms: the length of the period, in milliseconds.
    """
    runs = [(health, len(list(same))) for health, same in groupby(worst)]
    bars, x = [], 0
    for health, count in runs:
        bars.append(Bar(health, x, count * STRIP_WIDTH, _HEIGHT[health]))
        x += count * STRIP_WIDTH
    return Strip(bars, x, _words(worst, runs, length_ms))


def _words(worst: Sequence[Health], runs: Sequence[tuple[Health, int]], length_ms: int) -> str:
    """Describe the runs, the oldest first; if there are many, how much of the period each health takes."""
    each = length_ms // len(worst)
    if len(runs) <= _WORDS:
        return gettext(", then ").join(_lasting(health, count * each) for health, count in runs)
    total = Counter(worst)
    parts = gettext(", ").join(_lasting(health, total[health] * each) for health in HEALTH if total[health])
    return gettext("{n} changes: {parts} in total", n=len(runs) - 1, parts=parts)


def _lasting(health: Health, length_ms: int) -> str:
    return gettext("{health} for {duration}", health=gettext(health), duration=labels.duration(length_ms))
