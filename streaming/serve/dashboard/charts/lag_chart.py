"""Charts of the lag and waiting time of a group's topics, under its lanes: their axis of time is that of the lanes."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from nicegui import ui

from streaming.base.language import gettext
from streaming.queries.results import LagPoint
from streaming.serve.dashboard.parts.frame import element
from streaming.serve.dashboard.parts.moment import Window

Lines: TypeAlias = dict[str, list[list[float | None]]]
_DASHES = ("solid", "dashed", "dotted")


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
        options = _options(lines_of(points, self._value, self._is_bound), span, at)
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


def _options(lines: Lines, span: Window, at: int | None) -> dict[str, object]:
    return {
        "animation": False,
        # as wide as the lanes; the names of the values are within
        "grid": {"left": 0, "right": 0, "top": 24, "bottom": 22},
        "legend": {"top": 0, "right": 0, "itemWidth": 18, "itemHeight": 8, "type": "scroll", "selectedMode": False},
        "tooltip": {"trigger": "axis", "className": "chart-tip", "confine": True},
        "xAxis": {
            "type": "time", "min": span.since, "max": span.until, "axisLine": {"show": False},
            "axisTick": {"show": False},
            "axisLabel": {"hideOverlap": True, ":formatter": "(time) => rebalanceWatchTimes.clock(time)"},
            "axisPointer": {"label": {":formatter": "({ value }) => rebalanceWatchTimes.clock(value, true)"}},
        },
        "yAxis": {
            "type": "value", "min": 0, "minInterval": 1, "splitNumber": 3,
            "axisLabel": {"inside": True, "margin": 2, "verticalAlign": "bottom", "showMinLabel": False},
            "splitLine": {"lineStyle": {"color": "rgba(128,136,150,0.22)"}},
        },
        "series": [_line(topic, line, number, at) for number, (topic, line) in enumerate(sorted(lines.items()))],
    }  # fmt: skip


def _line(topic: str, points: list[list[float | None]], number: int, at: int | None) -> dict[str, object]:
    mark = {"data": [{"xAxis": at}] if at is not None and number == 0 else []}
    return {
        "name": topic,
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
