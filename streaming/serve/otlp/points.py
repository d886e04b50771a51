"""Metrics of `/metrics` as those of OTLP (same names, labels and values), and spans on their way to the collector.

Each cluster is a resource of its own, with the attribute ``cluster``; the label stays, too. What is of no cluster is a
resource without it. The start of a counter is unknown: it is the time of its first value, or of the push after which
the counter has fallen. A series that is not there any more is pushed without a value, so that it ends at once, as it
does for who scrapes.

Spans wait in a queue of limited length, so that nobody waits for the collector.
"""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from threading import Lock
from typing import Final, NamedTuple

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
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
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Tracer, set_span_in_context
from prometheus_client import Metric as Family

from streaming.base.limits import OTLP_SPANS
from streaming.base.span import Span

CLUSTERS_KEPT: Final = 1_000
"""Clusters whose resources and tracers are kept; those of others are made again."""


class Traces(SpanProcessor):
    """The spans that have ended and were not pushed yet; may be used by several threads."""

    def __init__(self, resource_of: Callable[[str], Resource]) -> None:
        """Know the resource of each cluster by its name; of what is of no cluster by the empty name."""
        self.lost = 0
        """The number of spans that were not pushed: there was no room for them, or the collector refused them."""
        self._tracer_of = lru_cache(CLUSTERS_KEPT)(self._new_tracer)
        self._resource_of = resource_of
        self._waiting: deque[ReadableSpan] = deque()
        self._lock = Lock()

    def add(self, trace: Span) -> None:
        """Add a span with its parts."""
        _record(self._tracer_of(trace.cluster), trace, Context())

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span; the oldest one is lost if there is no room."""
        with self._lock:
            self._waiting.append(span)
            self._forget_the_oldest()

    def take(self, count: int) -> list[ReadableSpan]:
        """Return the oldest spans, which are not kept any more."""
        with self._lock:
            return [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]

    def put_back(self, spans: Sequence[ReadableSpan]) -> None:
        """Keep spans again that could not be pushed."""
        with self._lock:
            self._waiting.extendleft(reversed(spans))
            self._forget_the_oldest()

    def lose(self, count: int) -> None:
        """Count spans that the collector has refused."""
        with self._lock:
            self.lost += count

    def _new_tracer(self, cluster: str) -> Tracer:
        provider = TracerProvider(resource=self._resource_of(cluster), shutdown_on_exit=False)
        provider.add_span_processor(self)
        return provider.get_tracer("rebalance-watch")

    def _forget_the_oldest(self) -> None:
        while len(self._waiting) > OTLP_SPANS:
            self._waiting.popleft()
            self.lost += 1


def _record(tracer: Tracer, span: Span, parent: Context) -> None:
    recorded = tracer.start_span(span.name, parent, start_time=span.began_ns, attributes=dict(span.attributes))
    for part in span.parts:
        _record(tracer, part, set_span_in_context(recorded, Context()))
    recorded.end(span.ended_ns)


SCOPE = InstrumentationScope("rebalance-watch")
ENDS_SAID = 3
"""Pushes that report the end of a series: one of them may be refused."""
POINTS_MAX = 5_000
"""Points of one request: about 1 MB before compression. A collector refuses bodies of more than 20 MB."""

Series = tuple[str, frozenset[tuple[str, str]]]


class PointValue(NamedTuple):
    """A value of a series."""

    cluster: str
    name: str
    description: str
    is_counter: bool
    point: NumberDataPoint


class Points:
    """Converts the metrics of one process; it knows what it has converted before."""

    def __init__(self, resource_of: Callable[[str], Resource]) -> None:
        """Know the resource of each cluster by its name; of what is of no cluster by the empty name."""
        self._resource_of = resource_of
        self._last: dict[Series, PointValue] = {}
        self._ended: dict[Series, tuple[PointValue, int]] = {}
        """The series that have ended, and in how many pushes that is still said: a push may be refused."""
        self._last_ns = 0

    def requests(self, families: Iterable[Family], now_ns: int) -> Iterator[ExportMetricsServiceRequest]:
        """Yield what Prometheus gets in parts, each for one request, with a time in epoch nanoseconds."""
        values = dict(self._values(families, now_ns))
        ended = {series: (value, ENDS_SAID) for series, value in self._last.items() if series not in values}
        ended |= {series: (value, left - 1) for series, (value, left) in self._ended.items() if left > 1}
        self._ended = {series: end for series, end in ended.items() if series not in values}
        self._last, self._last_ns = values, now_ns
        ends = [_without_value(value, now_ns) for value, _ in self._ended.values()]
        everything = [*values.values(), *ends]
        for first in range(0, len(everything), POINTS_MAX):
            request = encode_metrics(self._data(everything[first : first + POINTS_MAX]))
            if ends:
                _flag_ends(request)
            yield request

    def _values(self, families: Iterable[Family], now_ns: int) -> Iterator[tuple[Series, PointValue]]:
        for family in families:
            is_counter = family.type == "counter"
            for sample in family.samples:
                series = sample.name, frozenset(sample.labels.items())
                start = self._start(series, sample.value, now_ns) if is_counter else 0
                point = NumberDataPoint(dict(sample.labels), start, now_ns, float(sample.value))
                cluster = sample.labels.get("cluster", "")
                yield series, PointValue(cluster, sample.name, family.documentation, is_counter, point)

    def _start(self, series: Series, value: float, now_ns: int) -> int:
        last = self._last.get(series)
        if last is None:
            return now_ns
        return self._last_ns if value < last.point.value else last.point.start_time_unix_nano

    def _data(self, values: Sequence[PointValue]) -> MetricsData:
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
    data = Sum(points, AggregationTemporality.CUMULATIVE, True) if first.is_counter else Gauge(points)  # noqa: FBT003  the SDK's order
    return Metric(first.name, first.description, "", data)


def _without_value(value: PointValue, now_ns: int) -> PointValue:
    """Return the point that says that a series has ended: not a number, until `_flag_ends`."""
    last = value.point
    return value._replace(point=NumberDataPoint(last.attributes, last.start_time_unix_nano, now_ns, math.nan))


def _flag_ends(request: ExportMetricsServiceRequest) -> None:
    """Mark the points without a value as OTLP has it, which the encoder can't; no metric of ours is not a number."""
    for resource in request.resource_metrics:
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points:
                if math.isnan(point.as_double):
                    point.ClearField("as_double")
                    point.flags = DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
