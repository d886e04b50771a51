"""Charts of the lag and waiting time of a group's topics, below its lanes and with the same axis of time."""

from collections.abc import Callable, Iterable

from nicegui import ui

from streaming.base.language import gettext
from streaming.queries.results import LagPoint
from streaming.serve.dashboard.charts.time_chart import Lines, time_chart
from streaming.serve.dashboard.parts.frame import element
from streaming.serve.dashboard.parts.moment import Window


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
