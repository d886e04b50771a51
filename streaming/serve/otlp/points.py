"""The metrics of `/metrics` as those of OTLP: the same names, labels and values.

Each cluster is a resource of its own, with the attribute ``cluster``; the label stays, too. What is of no cluster is a
resource without it. The start of a counter is unknown: it is the time of its first value, or of the push after which
the counter has fallen.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import Metric as Family

SCOPE = InstrumentationScope("rebalance-watch")
POINTS_MAX = 5_000
"""Of one request: about 1 MB before it is compressed. A collector refuses bodies of more than 20 MB."""

Series = tuple[str, frozenset[tuple[str, str]]]


class PointValue(NamedTuple):
    """A value of a series."""

    cluster: str
    name: str
    description: str
    is_counter: bool
    point: NumberDataPoint


class Points:
    """Converts the metrics of one process; it knows since when each of its counters counts."""

    def __init__(self, resource_of: Callable[[str], Resource]) -> None:
        """Know the resource of each cluster by its name; of what is of no cluster by the empty name."""
        self._resource_of = resource_of
        self._counters: dict[Series, tuple[int, float]] = {}
        """The start of each counter (epoch nanoseconds), and its last value."""
        self._last_ns = 0

    def requests(self, families: Iterable[Family], now_ns: int) -> Iterator[MetricsData]:
        """Yield the metrics in parts, each for one request.

        Args:
            families: as Prometheus gets them.
            now_ns: the time of the values, epoch nanoseconds.
        """
        values = list(self._values(families, now_ns))
        self._last_ns = now_ns
        for first in range(0, len(values), POINTS_MAX):
            yield self._request(values[first : first + POINTS_MAX])

    def _values(self, families: Iterable[Family], now_ns: int) -> Iterator[PointValue]:
        before, self._counters = self._counters, {}
        for family in families:
            is_counter = family.type == "counter"
            for sample in family.samples:
                start = 0  # none: it is a gauge
                if is_counter:
                    series = sample.name, frozenset(sample.labels.items())
                    start, last = before.get(series, (now_ns, sample.value))
                    if sample.value < last:
                        start = self._last_ns
                    self._counters[series] = start, sample.value
                point = NumberDataPoint(dict(sample.labels), start, now_ns, float(sample.value))
                yield PointValue(sample.labels.get("cluster", ""), sample.name, family.documentation, is_counter, point)

    def _request(self, values: Sequence[PointValue]) -> MetricsData:
        by_cluster: dict[str, dict[str, list[PointValue]]] = defaultdict(lambda: defaultdict(list))
        for value in values:
            by_cluster[value.cluster][value.name].append(value)
        return MetricsData(
            [
                ResourceMetrics(
                    self._resource_of(cluster),
                    [ScopeMetrics(SCOPE, [_metric(of_one) for of_one in by_name.values()], "")],
                    "",
                )
                for cluster, by_name in by_cluster.items()
            ]
        )


def _metric(values: Sequence[PointValue]) -> Metric:
    points, first = [value.point for value in values], values[0]
    data = Sum(points, AggregationTemporality.CUMULATIVE, True) if first.is_counter else Gauge(points)  # noqa: FBT003
    return Metric(first.name, first.description, "", data)
