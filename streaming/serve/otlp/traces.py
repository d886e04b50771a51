"""Spans on their way to the OpenTelemetry collector: in a queue of limited length, so that nobody waits for it."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import Tracer, set_span_in_context

from streaming.base.limits import OTLP_SPANS
from streaming.base.span import Span

CLUSTERS_KEPT: Final = 1_000
"""For so many clusters resources and tracers are kept; of others they are made again."""


class Traces(SpanProcessor):
    """The spans that have ended and were not pushed yet; may be used by several threads."""

    def __init__(self, resource_of: Callable[[str], Resource]) -> None:
        """Know the resource of each cluster by its name; of what is of no cluster by the empty name."""
        self.lost = 0
        """How many spans were not pushed: there was no room for them, or the collector refused them."""
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
