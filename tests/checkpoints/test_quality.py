import gc
import json
import subprocess
import sys
from collections import Counter
from importlib import resources

import pandas as pd
import pytest

from checkpoints.quality import COLUMNS, judge

pytestmark = pytest.mark.xdist_group("quality")  # one process imports Great Expectations for all of them
NOW = 1_795_255_680_000
KEPT = ("ExpectationSuiteValidationResult", "ExpectationValidationResult", "Batch", "DataFrame")
CHECK = {
    "share": "expect_table_row_count_to_be_between",
    "set": "expect_column_values_to_be_in_set",
    "between": "expect_column_values_to_be_between",
}


def rows(count: int = 200) -> pd.DataFrame:
    """Good rows of two partitions, each a second after the one before."""
    frame = {
        "type": ["TICK", "CONSUME_STATS"] * (count // 2),
        "time": [NOW + 1_000 * i for i in range(count)],
        "source_id": ["poll-1@1"] * count,
        "key": ["", "c/g"] * (count // 2),
        "seq": [i // 2 for i in range(count)],
        "partition": [i % 2 for i in range(count)],
        "ingest_time": [NOW + 1_000 * i + 40 for i in range(count)],
    }
    return pd.DataFrame(frame)[list(COLUMNS)]


def verdicts(frame: pd.DataFrame, rejected: int = 0):
    return judge(frame, batch_id=7, rejected=rejected, time=NOW)


def failed(frame: pd.DataFrame, rejected: int = 0):
    return [(one.expectation, one.column) for one in verdicts(frame, rejected) if not one.success]


def changed(column: str, value: object, at: int = 3) -> pd.DataFrame:
    frame = rows()
    frame.loc[at, column] = value
    return frame


def test_a_good_batch_passes_every_check():
    results = verdicts(rows())

    assert all(one.success for one in results)
    declared = json.loads(resources.files("checkpoints").joinpath("suites/telemetry.json").read_text())
    assert len(results) == len(declared["expectations"])
    assert {(one.batch_id, one.time, one.suite, one.row_count) for one in results} == {(7, NOW, "telemetry", 200)}
    assert all(one.why for one in results)


@pytest.mark.parametrize(
    ("frame", "check"),
    [
        (changed("time", NOW // 1000), ("between", "time")),
        (changed("seq", 0), ("set", "has_number_of_another")),
    ],
)
def test_one_bad_row_fails_the_check_that_it_is_for_and_no_other(frame, check):
    kind, column = check

    assert failed(frame) == [(CHECK[kind], column)]


def test_an_event_that_is_sent_again_is_no_fault_of_its_source():
    frame = rows()

    assert failed(pd.concat([frame, frame[10:30]])) == []


def test_a_copy_of_a_broadcast_in_another_partition_is_no_repeat():
    frame = rows()
    frame.loc[frame["key"] == "", "seq"] = range(100)
    copies = frame[frame["key"] == ""].assign(partition=1)

    assert failed(pd.concat([frame, copies])) == []


def test_a_fast_clock_fails_when_more_than_one_row_in_a_hundred_has_it():
    frame = rows()
    frame.loc[:1, "ingest_time"] = frame["time"] - 5_001
    assert failed(frame) == []

    frame.loc[:2, "ingest_time"] = frame["time"] - 5_001
    assert failed(frame) == [(CHECK["between"], "delay_ms")]


def test_a_recording_that_is_replayed_later_passes():
    frame = rows()
    frame["ingest_time"] += 400 * 86_400_000

    assert failed(frame) == []


@pytest.mark.parametrize(("rejected", "checks"), [(2, []), (3, [(CHECK["share"], None)])])
def test_more_than_one_rejected_row_in_a_hundred_fails(rejected, checks):
    assert failed(rows(), rejected) == checks


def test_a_batch_of_which_nothing_was_accepted_fails():
    assert failed(rows()[:0], rejected=1) == [(CHECK["share"], None)]


def test_a_verdict_shows_what_was_seen():
    frame = rows()
    frame.loc[:4, "time"] = 1_000

    (verdict,) = [one for one in verdicts(frame) if one.column == "time"]

    assert (verdict.unexpected_count, verdict.observed) == (5, "[1000]")
    assert next(one.observed for one in verdicts(frame) if one.column is None) == "200"


def test_nothing_is_kept_of_a_batch_that_was_judged():
    """The job judges one every ten seconds, for months."""

    def kept() -> Counter[str]:
        gc.collect()
        return Counter(name for one in gc.get_objects() if (name := type(one).__name__) in KEPT)

    verdicts(rows(2))
    before = kept()
    for _ in range(3):
        verdicts(rows(2))
    assert kept() == before


_ALONE = """
import os, sys
connected = []
sys.addaudithook(lambda name, args: connected.append(args[1]) if name == "socket.connect" else None)
import pandas as pd
from checkpoints.quality import judge
frame = pd.DataFrame({name: pd.Series(dtype="int64") for name in %r})
judge(frame, batch_id=0, rejected=1, time=0)
print(connected, [os.path.join(d, f) for d, _, fs in os.walk(os.getcwd()) for f in fs])
"""


def test_it_sends_nothing_writes_no_file_and_warns_of_nothing(tmp_path):
    script = tmp_path / "home" / "alone.py"
    script.parent.mkdir()
    script.write_text(_ALONE % (COLUMNS,))
    (tmp_path / "work").mkdir()

    done = subprocess.run(
        [sys.executable, "-B", script],
        cwd=tmp_path / "work",
        env={"HOME": str(script.parent), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "[] []"
    assert done.stderr == ""
    assert [file.name for file in script.parent.rglob("*")] == ["alone.py"]
