"""An OpenTelemetry collector of OTLP/HTTP: it decodes the real protobuf, or answers as a test says."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK

_REQUESTS = {"/v1/metrics": ExportMetricsServiceRequest, "/v1/traces": ExportTraceServiceRequest}


class Received(NamedTuple):
    """A span, as it came."""

    name: str
    span_id: bytes
    parent_id: bytes
    trace_id: bytes
    began_ns: int
    ended_ns: int
    attributes: dict
    resource: dict


class Point(NamedTuple):
    """The value of a series, as it came."""

    value: float
    kind: str
    start_ns: int
    resource: dict


class OtlpReceiver(ThreadingHTTPServer):
    """Accepts metrics and traces; `status`, `body` and `may_answer` are how it answers."""

    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), _Handler)
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        self.status, self.body = 200, b""
        self.may_answer = threading.Event()
        """A request waits for it, after it was read."""
        self.may_answer.set()
        self.asked = []
        """The path of each request, as soon as it was read."""
        self.headers = {}
        """Of the last request."""
        self.accepted = {path: [] for path in _REQUESTS}
        """The requests that were answered with 200."""

    def points(self):
        """Return the last value of each series that has not ended, by its name and labels."""
        by_series = {}
        for request in list(self.accepted["/v1/metrics"]):
            for of_one in request.resource_metrics:
                resource = _values(of_one.resource.attributes)
                for metric in (metric for scope in of_one.scope_metrics for metric in scope.metrics):
                    kind = metric.WhichOneof("data")
                    for point in getattr(metric, kind).data_points:
                        series = metric.name, frozenset(_values(point.attributes).items())
                        if point.flags & DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK:
                            by_series.pop(series, None)
                            continue
                        assert point.WhichOneof("value")
                        by_series[series] = Point(point.as_double, kind, point.start_time_unix_nano, resource)
        return by_series

    def spans(self):
        """Return all spans."""
        return [
            Received(
                span.name, span.span_id, span.parent_span_id, span.trace_id, span.start_time_unix_nano,
                span.end_time_unix_nano, _values(span.attributes), _values(of_one.resource.attributes),
            )
            for request in list(self.accepted["/v1/traces"])
            for of_one in request.resource_spans
            for scope in of_one.scope_spans
            for span in scope.spans
        ]  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        server = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Type"] == "application/x-protobuf"
        request = _REQUESTS[self.path].FromString(gzip.decompress(body))
        server.headers = dict(self.headers)
        server.asked.append(self.path)
        server.may_answer.wait()
        status, answer = server.status, server.body
        if status == 200 and not answer:
            server.accepted[self.path].append(request)
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except ConnectionError:  # who asked has not waited
            self.close_connection = True

    def log_message(self, *_):
        pass


def _values(attributes):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextmanager
def otlp_receiver(port: int = 0) -> Iterator[OtlpReceiver]:
    """Run a receiver on this machine until the end of the block."""
    with OtlpReceiver(port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.may_answer.set()
            server.shutdown()
            thread.join()
