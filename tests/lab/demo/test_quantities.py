"""Quantities in the demo are what the capture's own answers say, by a reading that shares no code with ours."""

import gzip
import json
import random
from contextlib import nullcontext

import pytest
from typer.testing import CliRunner

from streaming.base.times import instant_ms
from streaming.cli import main, output
from streaming.lab.demo import CAPTURE

pytestmark = pytest.mark.xdist_group("demo tables")  # one process writes the demo's tables for all of them
GROUP = "orders-group"
POISONED = "2026-11-21T15:59:25Z"
"""50 s after a message was poisoned, 100 s after two queues were cured."""


@pytest.fixture(scope="module")
def answers():
    """Every answer of offsets: when it came, and of each queue the newest offset, the commit and the last message."""
    offsets = []
    with gzip.open(CAPTURE, "rt") as lines:
        for line in lines:
            event = json.loads(line)
            event = json.loads(event["value"]) if "value" in event else event
            if event["type"] == "CONSUME_STATS" and event["group"] == GROUP and "error" not in event:
                queues = {
                    row["mq"]["queue_id"]: (row["broker_offset"], row["consumer_offset"], row.get("last_time", 0))
                    for row in event["queues"]
                    if row["mq"]["topic"] == "Orders"
                }
                offsets.append((event["time"], queues))
    return sorted(offsets, key=lambda answer: answer[0])


@pytest.fixture
def queues_at(model, monkeypatch):
    """Ask the command line for the queues at an instant."""
    monkeypatch.setattr(output, "tables", lambda: nullcontext(model))

    def ask(at: int) -> dict[int, dict]:
        ended = CliRunner().invoke(main.app, ["group", "assignments", GROUP, "--at", str(at), "--format", "json"])
        assert ended.exit_code == 0, ended.output
        return {row["queue_id"]: row for row in json.loads(ended.stdout)}

    return ask


def test_a_poisoned_queue_shows_the_lag_of_the_last_answer(queues_at):
    by_queue = queues_at(instant_ms(POISONED, 0))
    assert (by_queue[3]["lag"], by_queue[3]["lag_is_stale"]) == (36, False)
    assert 6_000 < by_queue[3]["lag_age_ms"] < 8_000
    assert [by_queue[cured]["lag"] for cured in (0, 1)] == [0, 1]
    assert not by_queue[3]["lag_is_at_least"]
    bounds = [row["lag"] for row in by_queue.values() if row["lag_is_at_least"]]
    assert (sum(row["lag"] for row in by_queue.values()), len(bounds)) == (39, 6)


@pytest.mark.parametrize("instants", [16, pytest.param(100, marks=pytest.mark.prove)])
def test_lag_and_waiting_time_are_those_of_the_last_answer(queues_at, answers, instants):
    """At random instants; a lower bound is marked so: a hook has seen a later commit, or the last answer is stale."""
    chosen = random.Random(12)
    begin, end = answers[0][0], answers[-1][0] + 60_000
    compared = 0
    for instant in sorted(chosen.randrange(begin, end) for _ in range(instants)):
        time, last = next(one for one in reversed(answers) if one[0] <= instant)
        for queue_id, row in queues_at(instant).items():
            if queue_id not in last or row["lag_is_at_least"]:
                continue
            newest, commit, stored = last[queue_id]
            committed = any(queues.get(queue_id, (0, 0, 0))[1] > 0 for at, queues in answers if at <= instant)
            lag = max(0, newest - commit) if committed else row["lag"]
            assert (row["lag"], row["lag_time"]) == (lag, time), (instant, queue_id)
            assert row["waiting_ms"] == (time - stored if lag else 0), (instant, queue_id)
            assert row["lag_is_stale"] >= (instant - time > 30_000), (instant, queue_id)
            compared += 1
    assert compared > 2.5 * instants
