"""Every fault of consumers that pop opens its incident, by the telemetry that can show it, and no other; then it ends.

As `test_faults`: `faults.pop_cases` has what is required, and the short form judges a recording. To replace it after a
change of the hook or of the collector: run `python -m tests.instruments.faults.run pop FOLDER`, then `tar -cJf
tests/live/pop.tar.xz -C FOLDER recording.jsonl faults.jsonl mqadmin.jsonl otel.jsonl run.json`.
"""

from pathlib import Path

import pytest

from tests.instruments.faults import pop_verdict
from tests.instruments.faults.pop_cases import POP
from tests.instruments.faults.run import play
from tests.instruments.faults.verdict import judge, read, report
from tests.support.recordings import unpacked

pytestmark = pytest.mark.xdist_group("pop faults")  # one process unpacks the recording for all
RECORDING = Path(__file__).with_name("pop.tar.xz")
LIVE = ("pop-hour", "pop-quarter", "pop")
"""Each with a lab of its own, beside the others; the longest first."""
BATCH = 32
"""Messages that one POP takes at most."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The folder of a recording of all faults."""
    return unpacked(RECORDING, tmp_path_factory.mktemp("pop"))


def check(folder):
    run, log = read(folder)
    judged, stray = judge(run, log)
    text = "\n".join(report(judged, stray, run))
    print(text)
    assert not any(one.wrong for one in judged), text
    assert not any(stray.values()), text


def test_each_fault_of_consumers_that_pop_gives_its_incident_and_no_other(recorded):
    check(recorded)


def test_while_all_threads_hang_only_our_lag_grows(recorded):
    run, log = read(recorded)
    number = next(number for number, case in enumerate(POP["pop"].cases) if case.fault == "hang")
    hung = next(one for one in run.played if (one.group, one.case) == ("pop", number))
    lags = pop_verdict.seen(recorded, log)
    ours, metrics = (pop_verdict.highest(by, hung) for by in (lags.ours, lags.otel))
    assert ours.in_flight > BATCH
    assert ours.lag >= ours.in_flight
    assert metrics.lag <= BATCH
    assert metrics.in_flight <= BATCH


@pytest.mark.live
@pytest.mark.prove
@pytest.mark.parametrize("story", [pytest.param(story, marks=pytest.mark.xdist_group(story)) for story in LIVE])
def test_faults_and_hand_overs_of_consumers_that_pop(story, tmp_path):
    check(play(story, tmp_path))
