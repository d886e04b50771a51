"""Lines over time, as ECharts has them: interrupted where a value is unknown."""

from typing import TypeAlias

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
