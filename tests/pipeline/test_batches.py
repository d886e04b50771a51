"""The trace of a micro-batch: what it did when, from its plan to its commit, as an OpenTelemetry collector gets it."""

import time

import pytest

from rebalance_model.observe.policy import Policy
from streaming.base.settings import load_settings
from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from streaming.pipeline import job
from streaming.pipeline.batches import BatchTimes
from streaming.serve.otlp.start import pushing
from tests.support.otlp_receiver import otlp_receiver
from tests.support.telemetry import telemetry


@pytest.mark.spark
def test_a_batch_is_a_trace_of_its_parts(spark, settings_in, tmp_path):
    del spark  # the job takes the session that is there
    with FilePublisher(tmp_path / "log", 2) as publisher:
        publish(publisher, telemetry(4, 10))
    settings = settings_in(tmp_path, partitions=2)
    with otlp_receiver() as receiver:
        otlp = load_settings(otlp={"endpoint": receiver.endpoint, "signals": ["traces"]}).otlp
        with pushing(otlp, "run", print) as trace:
            batches = {batch.query: batch for batch in job.run_available_now(settings, Policy())}
            for batch in batches.values():
                trace(batch.trace)
        spans = receiver.spans()
    roots = {span.name: span for span in spans if not span.parent_id}
    assert roots.keys() == {"operator batch", "archive batch"}
    for query, expected in (
        ("operator", ["plan", "read and fold", "append to anomalies", "sync the state", "commit"]),
        ("archive", ["plan", "read and decode", "append to telemetry", "check the batch", "commit"]),
    ):
        root = roots[f"{query} batch"]
        assert root.attributes["rows"] == batches[query].rows > 0
        assert (root.ended_ns - root.began_ns) // 1_000_000 - batches[query].milliseconds in {0, 1}
        parts = sorted((one for one in spans if one.parent_id == root.span_id), key=lambda part: part.began_ns)
        names = [part.name for part in parts]
        assert [name for name in names if name in expected] == expected
        assert [names[0], names[-1]] == ["plan", "commit"]
        assert all(root.began_ns <= part.began_ns <= part.ended_ns <= root.ended_ns for part in parts)
        [append] = [part for part in parts if part.name == expected[2]]
        assert append.attributes["rows"] > 0


def test_a_batch_that_is_repeated_has_the_parts_of_its_last_attempt():
    times = BatchTimes()
    for attempt in ("first", "second"):
        times.begin(7)
        with times.part(7, attempt):
            pass
    assert [part.name for part in times.take(7)] == ["second"]
    assert times.take(7) == []


def test_parts_of_batches_whose_end_nobody_asks_for_are_forgotten():
    times = BatchTimes()
    for number in range(250):
        times.begin(number)
        with times.part(number, "fold"):
            pass
    assert times.take(100) == []
    assert times.take(249)


def test_who_waits_for_the_end_of_a_batch_waits_no_longer_than_it_says():
    times, began = BatchTimes(), time.monotonic()
    times.end()  # nobody waited yet
    times.wait_for_end(0.05)
    assert time.monotonic() - began >= 0.05
