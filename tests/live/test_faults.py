"""Every fault of the lab opens its incident, by the telemetry that can show it, and no other; then it is resolved.

`faults.cases` has the required incidents of each fault. `faults.run` records a story and `faults.verdict` judges a
recording, so a changed rule can be tested on it within seconds. So does the short form, with recordings of the quick
faults and of those of public reports; the long forms record anew. To replace one after a change of the hook or of the
collector: run `python -m tests.instruments.faults.run quick FOLDER`, then `tar -cJf tests/live/faults.tar.xz -C FOLDER
recording.jsonl faults.jsonl mqadmin.jsonl run.json`; of `field` it is `field.tar.xz`.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from rebalance_model.observe.events import ConsumerRunningInfo
from rebalance_model.observe.hooks import pull_errors
from tests.instruments.faults.case import HOOK, POLL, due
from tests.instruments.faults.run import play
from tests.instruments.faults.stories import STORIES
from tests.instruments.faults.verdict import answers, judge, read, report, table, wrong
from tests.support.field import concluded_of, numbered
from tests.support.recordings import unpacked

pytestmark = pytest.mark.xdist_group("faults")  # one process unpacks the recording for all
RECORDING = Path(__file__).with_name("faults.tar.xz")
OF_REPORTS = Path(__file__).with_name("field.tar.xz")
LIVE = ("hour", "half-hour", "all", "brokers", "rollout", "field", "quick")
"""Each with a lab of its own, beside the others; the longest first."""


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The folder of a recording of the quick faults."""
    return unpacked(RECORDING, tmp_path_factory.mktemp("quick"))


@pytest.fixture(scope="module")
def of_reports(tmp_path_factory):
    """The folder of a recording of the faults of public reports."""
    return unpacked(OF_REPORTS, tmp_path_factory.mktemp("reports"))


def check(folder):
    run, log = read(folder)
    judged, stray = judge(run, log)
    text = "\n".join([*report(judged, stray, run), "", *table(judged, answers(folder))])
    print(text)
    assert not any(one.wrong for one in judged), text
    assert not any(stray.values()), text


def test_each_quick_fault_gives_its_incident_and_no_other_and_it_resolves(quick):
    check(quick)


def test_each_fault_of_a_public_report_gives_its_incident_and_no_other(of_reports):
    check(of_reports)


def test_a_topic_created_again_is_known_by_how_its_reader_goes_back(of_reports):
    """A hook of 5.4.0 sees no code 21, but two commits of 0 at once; the refusals before, code 17, are left out."""
    group = "again-group"
    _, log = read(of_reports)
    seen = [one for one in log if one.source == HOOK and getattr(one, "group", group) == group]
    conclusions = concluded_of(
        numbered(one for one in seen if getattr(one, "code", None) != pull_errors.TOPIC_NOT_EXIST)
    )
    opened = [one for one in conclusions.transitions("OFFSET_REGRESSION") if one.transition == "OPENED"]
    assert [(one.group, one.sub_cause) for one in opened] == [(group, "NEWEST_FELL")] * 4


def test_the_listener_that_hangs_is_asked_where_it_does(quick):
    run, log = read(quick)
    [hung] = [one for one in run.played if STORIES[run.story][one.group].cases[one.case].fault == "hang"]
    asked = [one for one in log if isinstance(one, ConsumerRunningInfo) and one.stacks]
    mine = [one for one in asked if one.group == f"{hung.group}-group" and hung.done <= one.time <= hung.cure]
    assert 1 <= len(mine) <= 2  # again after a round that did not find the client
    stacks = [one for one in mine[0].stacks if any("consumeMessage(" in frame for frame in one.frames)]
    assert stacks, mine[0].stacks  # another thread may be between two messages
    assert "ConsumeRequest.run(" in stacks[0].frames[-1]


def test_an_unnamed_incident_and_a_missing_one_are_found(quick):
    run, log = read(quick)
    hang = next(one for one in judge(run, log)[0] if one.case.fault == "hang")
    nothing = list(wrong(replace(hang.case, due=()), hang.played, hang.reported))
    assert nothing
    assert all("ORDERED_QUEUE_STUCK" in line and "false alarm" in line for line in nothing)
    [another] = wrong(
        replace(hang.case, due=(*hang.case.due, due("PULL_EXPIRED", by=(POLL,)))), hang.played, hang.reported
    )
    assert another.startswith("poll: PULL_EXPIRED")
    assert "is missing" in another


def test_mqadmin_does_not_report_a_hung_a_stuck_or_an_orphaned_queue(quick):
    run, _ = read(quick)
    printed = answers(quick)
    for played in run.played:
        case = STORIES[run.story][played.group].cases[played.case]
        mine = [
            one
            for one in printed
            if one.group == f"{played.group}-group" and played.done <= one.asked and one.answered <= played.cure
        ]
        assert mine
        if case.fault in ("hang", "poison", "kill"):
            assert all("Rebalance OK" in one.verdicts and "while" not in one.out for one in mine)


@pytest.mark.live
@pytest.mark.prove
@pytest.mark.parametrize("story", [pytest.param(story, marks=pytest.mark.xdist_group(story)) for story in LIVE])
def test_every_fault_raises_its_incidents_and_hand_overs_raise_none(story, tmp_path):
    check(play(story, tmp_path))
