"""Data for an OpenTelemetry collector: the values of /metrics, spans of batches and rounds; and one that fails."""

import sys
import threading

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from prometheus_client import CollectorRegistry

from streaming.base.errors import SettingsError
from streaming.base.limits import OTLP_SPANS
from streaming.base.settings import load_settings
from streaming.base.span import Span
from streaming.serve.metrics.snapshot import family
from streaming.serve.otlp import points, push
from streaming.serve.otlp.start import pushing
from tests.support.otlp_receiver import otlp_receiver
from tests.support.waiting import until

SECONDS = 60
"""Nothing but a hang takes so long."""
SECRET = "a-secret-of-some-length"
COUNTER = "rebalance_watch_otlp_requests_total"


class Pushed:
    """Pushes of a process with metrics of its own, and the lines that it logs."""

    def __init__(self, endpoint, interval_seconds=3_600, **otlp):
        settings = load_settings(otlp={"endpoint": endpoint} | otlp).otlp
        settings = settings.model_copy(update={"interval_seconds": interval_seconds})
        self.lines, self.values, self.registry = [], [], CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        self._pushing = pushing(settings, "test", self.lines.append, self.registry)

    def collect(self):
        samples = [((cluster, str(number)), value) for number, (cluster, value) in enumerate(self.values)]
        yield family("test_gauge", "A gauge.", ("cluster", "number"), samples)
        yield family("test_total", "A counter.", ("cluster", "number"), samples, kind="counter")

    def count(self, signal, result):
        return self.registry.get_sample_value(COUNTER, {"signal": signal, "result": result})

    @property
    def lost(self):
        return self.registry.get_sample_value("rebalance_watch_otlp_spans_lost_total")

    def __enter__(self):
        self.trace = self._pushing.__enter__()
        return self

    def __exit__(self, *error):
        self._pushing.__exit__(*error)


@pytest.fixture
def receiver():
    with otlp_receiver() as running:
        yield running


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Push spans at once, and try again at once."""
    monkeypatch.setattr(push, "_SPANS_SECONDS", 0.01)
    monkeypatch.setattr(push, "_PAUSE_SECONDS_MAX", 0.02)


def a_trace(name="work", cluster=""):
    parts = (Span("first", 1_000, 2_000, {"rows": 3}), Span("second", 2_000, 5_000))
    return Span(name, 1_000, 5_000, {"groups": 2, "share": 0.5, "name": "x"}, parts, cluster)


def test_a_trace_has_its_parts_and_the_resource_of_its_cluster(receiver):
    with Pushed(receiver.endpoint) as pushed:
        pushed.trace(a_trace(cluster="tokyo"))
    spans = {span.name: span for span in receiver.spans()}
    work, first, second = spans["work"], spans["first"], spans["second"]
    assert (work.parent_id, first.parent_id, second.parent_id) == (b"", work.span_id, work.span_id)
    assert len({span.trace_id for span in spans.values()}) == 1
    assert (second.began_ns, second.ended_ns) == (2_000, 5_000)
    assert work.attributes == {"groups": 2, "share": 0.5, "name": "x"}
    assert first.attributes == {"rows": 3}
    assert (work.resource["service.name"], work.resource["cluster"]) == ("rebalance-watch", "tokyo")
    assert work.resource["service.version"]
    assert work.resource["service.instance.id"].endswith("/test")


def test_each_cluster_is_a_resource_and_the_label_stays(receiver):
    pushed = Pushed(receiver.endpoint)
    pushed.values = [("a", 1), ("b", 2), ("", 3)]
    with pushed:
        pass
    resources = {
        (dict(labels)["cluster"], point.resource.get("cluster")): point.value
        for (name, labels), point in receiver.points().items()
        if name == "test_gauge"
    }
    assert resources == {("a", "a"): 1, ("b", "b"): 2, ("", None): 3}


def test_a_counter_that_falls_has_a_new_start(receiver):
    counter = points.Points(lambda _: points.Resource({}))

    def start(value, now):
        [request] = counter.requests([family("x_total", "", (), [((), value)], kind="counter")], now)
        [metric] = request.resource_metrics[0].scope_metrics[0].metrics
        [point] = metric.sum.data_points
        return point.start_time_unix_nano

    assert [start(5, 100), start(7, 200), start(1, 300), start(2, 400)] == [100, 100, 200, 200]


def test_a_series_that_is_not_there_any_more_ends_at_once(receiver):
    pushed = Pushed(receiver.endpoint, signals=["metrics"], interval_seconds=0.01)
    pushed.values = [("a", 1), ("a", 2)]

    def gauges():
        return sorted(point.value for (name, _), point in receiver.points().items() if name == "test_gauge")

    with pushed:
        until(lambda: gauges() == [1, 2], SECONDS)
        pushed.values = [("a", 5)]
        until(lambda: gauges() == [5], SECONDS)
        pushed.values = [("a", 5), ("a", 6)]
        until(lambda: gauges() == [5, 6], SECONDS)


def test_the_end_of_a_series_is_said_for_some_pushes_and_then_no_more():
    gauge = points.Points(lambda _: points.Resource({}))

    def count(*samples):
        requests = list(gauge.requests([family("x", "", ("number",), samples)], 100))
        return [len(one.resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points) for one in requests]

    assert count((["1"], 1), (["2"], 2)) == [2]
    assert [count((["1"], 1)) for _ in range(points.ENDS_SAID + 1)] == [[2]] * points.ENDS_SAID + [[1]]


def test_many_series_are_pushed_in_several_requests(receiver, monkeypatch):
    monkeypatch.setattr(points, "POINTS_MAX", 10)
    pushed = Pushed(receiver.endpoint, signals=["metrics"])
    pushed.values = [("a", number) for number in range(40)]
    with pushed:
        until(lambda: len(receiver.accepted["/v1/metrics"]) >= 8, SECONDS)
    series = [labels for name, labels in receiver.points() if name == "test_gauge"]
    assert len(series) == 40


def test_headers_are_sent_and_in_no_line(receiver):
    receiver.status, receiver.body = 403, f"no {SECRET}".encode()
    with Pushed(receiver.endpoint, headers=f"Authorization=Bearer%20{SECRET}, X-Tenant=a%2Cb") as pushed:
        until(lambda: pushed.lines, SECONDS)
    assert receiver.headers["Authorization"] == f"Bearer {SECRET}"
    assert receiver.headers["X-Tenant"] == "a,b"
    assert "HTTP 403" in pushed.lines[0]
    assert SECRET not in "".join(pushed.lines)


PARTIAL = ExportMetricsServiceResponse(partial_success={"rejected_data_points": 2, "error_message": "too old"})


@pytest.mark.parametrize(
    ("status", "body", "line"),
    [
        (429, b"", "HTTP 429"),
        (500, b"out of order", "HTTP 500 (out of order)"),
        (500, b"\x08\x0d\x12\xff\xfe", "HTTP 500"),
        (302, b"", "HTTP 302"),
        (200, b"<!doctype html><title>Shop</title>", "no OpenTelemetry collector"),
        (200, PARTIAL.SerializeToString(), "2 data points were rejected (too old)"),
    ],
)
def test_a_refusal_is_one_line_and_counted_until_it_ends(receiver, status, body, line):
    receiver.status, receiver.body = status, body
    with Pushed(receiver.endpoint, signals=["metrics"], interval_seconds=0.01) as pushed:
        until(lambda: len(receiver.asked) >= 2, SECONDS)
        [said] = list(pushed.lines)
        assert line in said
        assert f"{receiver.endpoint}/v1/metrics" in said
        receiver.status, receiver.body = 200, b""
        until(lambda: len(pushed.lines) == 2, SECONDS)
        assert "again" in pushed.lines[1]
    assert pushed.lines[2:] == []
    series = {("signal", "metrics"), ("result", "failed")}
    assert receiver.points()[COUNTER, frozenset(series)].value >= 2


@pytest.mark.parametrize("status", [429, 503])
def test_spans_wait_for_a_receiver_that_is_away_and_are_pushed_then(receiver, status):
    receiver.status = status
    with Pushed(receiver.endpoint, signals=["traces"]) as pushed:
        pushed.trace(a_trace("early"))
        until(lambda: len(receiver.asked) >= 3, SECONDS)
        receiver.status = 200
        until(lambda: len(pushed.lines) == 2, SECONDS)
    assert sorted(span.name for span in receiver.spans()) == ["early", "first", "second"]


def test_spans_that_are_refused_for_good_are_lost_and_counted(receiver):
    receiver.status = 400
    with Pushed(receiver.endpoint) as pushed:
        pushed.trace(a_trace())
        until(lambda: pushed.lost == 3, SECONDS)


def test_nobody_waits_for_a_slow_receiver_and_the_queue_is_bounded(receiver):
    receiver.may_answer.clear()
    with Pushed(receiver.endpoint, signals=["traces"], timeout_seconds=60) as pushed:
        pushed.trace(a_trace())
        until(lambda: receiver.asked, SECONDS)
        for _ in range(OTLP_SPANS // 3 + 100):
            pushed.trace(a_trace())
        assert receiver.asked == ["/v1/traces"]
        assert 0 < pushed.lost <= 300
        receiver.may_answer.set()


def test_the_end_does_not_wait_long_for_a_receiver_that_does_not_answer(receiver, monkeypatch):
    monkeypatch.setattr(push, "_END_SECONDS", 0.1)
    receiver.may_answer.clear()
    with Pushed(receiver.endpoint, timeout_seconds=60) as pushed:
        pushed.trace(a_trace())
        until(lambda: len(receiver.asked) == 2, SECONDS)
    assert pushed.lines == [], "no request has ended"


def test_no_answer_in_time_is_a_failure(receiver):
    receiver.may_answer.clear()
    with Pushed(receiver.endpoint, signals=["metrics"], timeout_seconds=0.2) as pushed:
        until(lambda: pushed.lines, SECONDS)
    assert "no answer in time" in pushed.lines[0]


def test_a_receiver_that_is_down_costs_nothing_and_is_found_again():
    with otlp_receiver() as first:
        endpoint, port = first.endpoint, first.server_address[1]
    with Pushed(endpoint, interval_seconds=0.01) as pushed:
        pushed.trace(a_trace())
        until(lambda: pushed.count("metrics", "failed") >= 2 and pushed.count("traces", "failed") >= 3, SECONDS)
        assert len(pushed.lines) == 2, "one for each signal"
        with otlp_receiver(port) as again:
            until(lambda: len(pushed.lines) == 4, SECONDS)
            assert len(again.spans()) == 3
            assert pushed.lost == 0


def test_values_that_cannot_be_read_end_no_push(receiver):
    pushed = Pushed(receiver.endpoint, signals=["metrics"], interval_seconds=0.01)
    pushed.values = [("a", "not a number")]
    with pushed:
        until(lambda: pushed.lines, SECONDS)
        assert "ValueError" in pushed.lines[0]
        pushed.values = []
        until(lambda: receiver.accepted["/v1/metrics"], SECONDS)


def test_nothing_runs_without_an_endpoint():
    before = threading.active_count()
    with Pushed("") as pushed:
        pushed.trace(a_trace())
        assert threading.active_count() == before
        assert pushed.count("metrics", "ok") is None


@pytest.mark.parametrize(
    ("otlp", "said"),
    [
        ({"endpoint": "localhost:4317"}, "Setting otlp.endpoint"),
        ({"endpoint": f"http://me:{SECRET}@host"}, "Setting otlp.endpoint: should have no user and password"),
        ({"signals": ["logs"]}, "Setting otlp.signals"),
        ({"interval_seconds": 0}, "Setting otlp.interval_seconds"),
    ],
)
def test_a_wrong_setting_is_one_sentence_without_a_secret(otlp, said):
    with pytest.raises(SettingsError) as error:
        load_settings(otlp=otlp)
    assert str(error.value).startswith(said)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("otlp", "said"),
    [
        ({"headers": SECRET}, "otlp.headers can't be sent"),
        ({"headers": f"X={SECRET}\x01"}, "otlp.headers can't be sent"),
        ({"headers": f"X={SECRET}", "headers_file": "x"}, "Both otlp.headers and otlp.headers_file are set"),
        ({"headers_file": "/nowhere/x"}, "The file /nowhere/x can't be read"),
        ({"ca_file": __file__}, "has no PEM certificate: correct otlp.ca_file"),
    ],
)
def test_what_can_not_be_sent_stops_the_start_with_one_sentence(receiver, otlp, said):
    with pytest.raises(SettingsError, match=r"^[^\n]+$") as error, Pushed(receiver.endpoint, **otlp):
        pass
    assert said in str(error.value)
    assert SECRET not in str(error.value)
    assert receiver.asked == []


def test_packages_that_are_not_installed_are_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "streaming.serve.otlp.push")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.common.trace_encoder", None)
    with pytest.raises(SettingsError, match=r"install rebalance-watch\[otlp\]"), Pushed("http://127.0.0.1:1"):
        pass
