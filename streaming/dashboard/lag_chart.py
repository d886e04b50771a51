"""How the lag of a group's topics went."""

from collections.abc import Iterable

from nicegui import ui

from streaming.dashboard.moment import Window
from streaming.queries.answers import LagPoint

_DASHES = ("solid", "dashed", "dotted")


class LagChart:
    """A line a topic; a break where the lag is not known."""

    def __init__(self) -> None:
        self._chart = ui.echart({"series": []}, renderer="svg").classes("lag-chart")
        self._chart.props('role=img aria-label="Lag by topic"')

    def show(self, points: Iterable[LagPoint], span: Window, at: int | None) -> None:
        """Show a span, and the instant in it."""
        options = _options(list(points), span, at)
        if options != self._chart.options:
            self._chart.options.clear()
            self._chart.options.update(options)
            self._chart.update()


def _options(points: list[LagPoint], span: Window, at: int | None) -> dict[str, object]:
    topics = sorted({point.topic for point in points})
    return {
        "animation": False,
        "grid": {"left": 8, "right": 110, "top": 14, "bottom": 4, "containLabel": True},
        "tooltip": {"trigger": "axis", "className": "chart-tip", "confine": True},
        "useUTC": True,
        "xAxis": {
            "type": "time", "min": span.since, "max": span.until, "axisLine": {"show": False},
            "axisTick": {"show": False}, "axisLabel": {"hideOverlap": True},
        },
        "yAxis": {
            "type": "value", "min": 0, "minInterval": 1, "splitNumber": 3,
            "splitLine": {"lineStyle": {"color": "rgba(128,136,150,0.22)"}},
        },
        "series": [_line(topic, points, number, at) for number, topic in enumerate(topics)],
    }  # fmt: skip


def _line(topic: str, points: list[LagPoint], number: int, at: int | None) -> dict[str, object]:
    own = [p for p in points if p.topic == topic]
    mark = {"data": [{"xAxis": at}] if at is not None and number == 0 else []}
    return {
        "name": topic,
        "type": "line",
        "step": "end",
        "data": [[p.time, p.lag] for p in own],
        "connectNulls": False,
        "showSymbol": len(own) == 1,
        "symbolSize": 5,
        "lineStyle": {"width": 2, "type": _DASHES[number % len(_DASHES)]},
        "color": ("#5b7fc7", "#c08a3e", "#4f9d8b", "#a86a93")[number % 4],
        "endLabel": {"show": True, "formatter": "{a}", "width": 98, "overflow": "truncate"},
        "markLine": {
            "silent": True, "symbol": "none", "label": {"show": False}, "animation": False,
            "lineStyle": {"color": "#4677d8", "type": "solid", "width": 1.5}, **mark,
        },
    }  # fmt: skip
