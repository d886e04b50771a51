"""No row contradicts itself: its offsets, lags and times are of one instant, and a lag of two sources is a bound.

Over recordings of real brokers and clients, by hook and polls, with restarts, kills and freezes; the seeds of
`tests.detection` are checked by the same `violations`.
"""

import gzip
import json
from pathlib import Path

import pytest

from rebalance_model.observe.effects import QueueProgress
from rebalance_model.observe.policy import Policy
from streaming.lab.demo import CAPTURE
from streaming.pipeline.operator import ShardRow
from tests.support.field import CASES
from tests.support.invariants import contradictions, violations
from tests.support.plain import effects

TESTS = Path(__file__).parents[1]
CAPTURES = [CAPTURE, TESTS / "audit/broker_faults.jsonl.gz", *sorted((TESTS / "rules/captures").glob("*.gz"))]
SHORT = [CASES / "05c-topic-recreated-connector/input-both.jsonl.gz"]
"""Its commits are beyond the newest offset."""
LONG = [*CAPTURES, *sorted(CASES.glob("*/input-*.jsonl.gz"))]


def rows_of(recording: Path) -> list[ShardRow]:
    """Return the rows of a log with a recording's lines, stamped as the newest event before or at each."""
    rows, stamp = [], 0
    with gzip.open(recording) as lines:
        for offset, line in enumerate(lines):
            stamp = max(stamp, json.loads(line)["time"])
            rows.append(ShardRow(offset, stamp, None, line.rstrip(b"\n")))
    return rows


def check(recording: Path) -> None:
    found = effects(rows_of(recording), Policy())
    quantities = [row for row in found if isinstance(row, QueueProgress)]
    assert violations(row for row in found if not isinstance(row, QueueProgress)) == []
    assert [one for row in quantities for one in contradictions(row)] == []
    assert quantities


@pytest.mark.parametrize("recording", SHORT, ids=lambda path: path.parent.name)
def test_no_row_contradicts_itself(recording):
    check(recording)


@pytest.mark.prove
@pytest.mark.parametrize("recording", LONG, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}")
def test_no_row_of_any_recording_contradicts_itself(recording):
    check(recording)
