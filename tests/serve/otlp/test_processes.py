"""Data that the processes push, as a user starts them: the values of /metrics, and a round of polls."""

import os
import subprocess
import sys

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.counted_cluster import BROKER, CLUSTER, CountedCluster
from tests.support.go_programs import SOURCES, build, toolchain
from tests.support.otel_collector import otel_collector
from tests.support.otlp_receiver import otlp_receiver
from tests.support.served import served
from tests.support.waiting import until
from tests.support.world import NOON, example

SECONDS = 120
OWN = ("process_", "rebalance_watch_otlp_")
"""What changes from moment to moment."""


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    """A real OpenTelemetry collector as a program."""
    if toolchain() is None:
        pytest.skip("there is no Go toolchain (`go`) on the path to build the collector with")
    return build(SOURCES / "otel_collector", tmp_path_factory.mktemp("collector"))


@pytest.fixture(params=["at once", pytest.param("by a collector", marks=[pytest.mark.live, pytest.mark.prove])])
def receiver(request, tmp_path):
    """Return what is pushed arrives here, in the long form through a real collector; `endpoint` is where to push."""
    with otlp_receiver() as running:
        if request.param == "at once":
            yield running
        else:
            with otel_collector(request.getfixturevalue("collector"), tmp_path, running.endpoint) as endpoint:
                running.endpoint = endpoint
                yield running


def test_the_pushed_values_are_those_of_metrics(receiver, tmp_path):
    example().write(tmp_path / "tables")
    with served("metrics", tmp_path, now=NOON + 10_000, OTLP__ENDPOINT=receiver.endpoint) as address:
        until(lambda: receiver.accepted["/v1/metrics"], SECONDS)
        text = httpx.get(f"{address}/metrics", timeout=SECONDS, verify=False).text
    families = {one.name: one for one in text_string_to_metric_families(text)}
    scraped = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for one in families.values()
        for sample in one.samples
    }
    pushed = receiver.points()
    assert pushed.keys() == scraped.keys()
    stable = {series for series in scraped if not series[0].startswith(OWN)}
    assert len(stable) > 50
    assert {series: pushed[series].value for series in stable} == {series: scraped[series] for series in stable}
    counters = {sample.name for one in families.values() if one.type == "counter" for sample in one.samples}
    assert {series[0] for series, point in pushed.items() if point.kind == "sum"} == counters
    clusters = {point.resource.get("cluster") for (name, _), point in pushed.items() if name.startswith("rocketmq_")}
    assert clusters == {"c"}
    [instance] = {point.resource["service.instance.id"] for point in pushed.values()}
    assert instance.endswith("/metrics")


def test_a_round_of_polls_is_a_trace_with_the_requests_to_each_server(receiver, tmp_path):
    groups = ["orders", "audit"]
    with CountedCluster(groups) as cluster:
        environment = {
            "COLLECTOR__NAME_SERVERS": f'["{cluster.address}"]',
            "OTLP__ENDPOINT": receiver.endpoint,
            "OTLP__SIGNALS": '["traces"]',
            "RUNTIME__ROOT": str(tmp_path),
        }
        ran = subprocess.run(
            [sys.executable, "-m", "streaming.cli", "collect", "poll", "--once", "--to", tmp_path / "a.jsonl"],
            env=os.environ | {f"REBALANCE_WATCH_{name}": value for name, value in environment.items()},
            capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    spans = receiver.spans()
    [round_] = [span for span in spans if not span.parent_id]
    assert (round_.name, round_.resource["cluster"]) == ("poll round", CLUSTER)
    assert (round_.attributes["groups"], round_.attributes["members"]) == (2, 4)
    [server] = [span for span in spans if span.parent_id]
    assert server.name == f"requests to broker {BROKER}"
    assert server.attributes["requests.get_consumer_running_info"] == 4
    assert server.attributes["unanswered"] == 0
    assert round_.began_ns <= server.began_ns <= server.ended_ns
