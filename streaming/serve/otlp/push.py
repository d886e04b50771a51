"""Push metrics and traces to an OpenTelemetry collector, each from a thread of its own: no other work waits for it."""

import platform
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.metadata import version
from typing import Self

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.registry import Collector

from streaming.base.errors import first_line
from streaming.base.sections.reporting import Otlp
from streaming.base.span import Span
from streaming.serve.metrics.snapshot import family
from streaming.serve.otlp.points import CLUSTERS_KEPT, Points, Traces
from streaming.serve.otlp.receiver import PushRefusedError, Receiver

_SERVICE = "rebalance-watch"
_SPANS_PER_REQUEST = 512
_SPANS_SECONDS = 5.0
"""The pause between two pushes of spans; after a failure it grows."""
_PAUSE_SECONDS_MAX = 60.0
_END_SECONDS = 5.0
"""The time for which the end waits for the last push."""


class Push(Collector):
    """Pushes what one process has, from the start of the block to its end; its own counters are among the metrics."""

    def __init__(
        self, otlp: Otlp, process: str, log: Callable[[str], None], registry: CollectorRegistry | None = None
    ) -> None:
        """Check the settings; nothing is sent yet.

        ``process`` is the name of the command. ``log`` is called with a sentence when pushes begin to fail, and when
        they succeed again. Without a registry there are only the metrics of the process.

        Raises:
            SettingsError: the headers or the authority can't be used.
        """
        resource_of = _resources(process)
        self._traces = Traces(resource_of)
        self._registry = _of_the_process() if registry is None else registry
        self._points = Points(resource_of)
        self._receivers = {signal: Receiver(otlp, signal, log) for signal in dict.fromkeys(otlp.signals)}
        self._interval_seconds = otlp.interval_seconds
        self._spans_seconds = _SPANS_SECONDS
        self._ending = threading.Event()
        work = {"metrics": self._push_metrics, "traces": self._push_traces}
        self._threads = [
            threading.Thread(target=self._repeat, args=(receiver, work[signal]), name=f"otlp {signal}", daemon=True)
            for signal, receiver in self._receivers.items()
        ]

    def __enter__(self) -> Self:
        self._registry.register(self)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        until = time.monotonic() + _END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._registry.unregister(self)

    def close(self) -> None:
        """Close the connections of pushes that have not begun."""
        for receiver in self._receivers.values():
            receiver.close()

    def trace(self, trace: Span) -> None:
        """Push a span with its parts, soon."""
        if "traces" in self._receivers:
            self._traces.add(trace)

    def collect(self) -> Iterator[Metric]:
        """Yield the counters of the pushes."""
        yield family(
            "rebalance_watch_otlp_requests_total",
            "Requests to the OpenTelemetry collector (section [otlp]) of this process.",
            ("signal", "result"),
            (
                ((signal, result), count)
                for signal, receiver in self._receivers.items()
                for result, count in receiver.results.items()
            ),
            kind="counter",
        )
        yield family(
            "rebalance_watch_otlp_spans_lost_total",
            "Spans of this process that were not pushed: the collector refused them, or was away for too long.",
            (),
            [((), self._traces.lost if "traces" in self._receivers else None)],
            kind="counter",
        )

    def _repeat(self, receiver: Receiver, work: Callable[[Receiver], float]) -> None:
        """Do the work after each of its pauses, and once more at the end."""
        is_last = False
        while not is_last:
            is_last = self._ending.is_set()
            try:
                pause = work(receiver)
            except Exception as error:  # noqa: BLE001  nothing that fails here may end the pushes, or the process
                receiver.note_failure(f"{type(error).__name__}: {first_line(error)}")
                pause = _PAUSE_SECONDS_MAX
            if not is_last:
                self._ending.wait(pause)
        receiver.close()

    def _push_metrics(self, receiver: Receiver) -> float:
        """Push the values of now; of those that are refused the next ones will do."""
        for request in self._points.requests(self._registry.collect(), time.time_ns()):
            try:
                receiver.send(request)
            except PushRefusedError as error:
                if error.again:
                    break
        return self._interval_seconds

    def _push_traces(self, receiver: Receiver) -> float:
        """Push the spans that wait; they wait on if the collector is away."""
        while spans := self._traces.take(_SPANS_PER_REQUEST):
            try:
                receiver.send(encode_spans(spans))
            except PushRefusedError as error:
                if error.again:
                    self._traces.put_back(spans)
                    self._spans_seconds = min(2 * self._spans_seconds, _PAUSE_SECONDS_MAX)
                    return self._spans_seconds
                self._traces.lose(len(spans))
        self._spans_seconds = _SPANS_SECONDS
        return self._spans_seconds


def _resources(process: str) -> Callable[[str], Resource]:
    """Return a function that returns the resource of a cluster of this process; without one for the empty name."""
    fixed = {
        "service.name": _SERVICE,
        "service.version": version(_SERVICE),
        "service.instance.id": f"{platform.node()}/{process}",
    }

    @lru_cache(CLUSTERS_KEPT)
    def resource_of(cluster: str) -> Resource:
        return Resource.create(fixed | ({"cluster": cluster} if cluster else {}))  # with OTEL_RESOURCE_ATTRIBUTES

    return resource_of


def _of_the_process() -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    return registry
