"""A real broker deletes messages before two groups read them: each source tells it, with a number that is proved.

`expiry_run` records the run. The short form judges the recording that is kept; the long form records again. To replace
it: run `python -m tests.instruments.faults.expiry_run FOLDER`, then
`tar -cJf tests/live/expiry.tar.xz -C FOLDER recording.jsonl run.json`.

The clients are the judges: what a listener never received is lost. A client drops what it has pulled and not consumed
when it continues after deleted messages, so the product counts at least what was not pulled.
"""

import json
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from tests.instruments.faults import expiry_run
from tests.instruments.faults.case import BOTH, HOOK, POLL, SOURCES
from tests.instruments.faults.expiry_run import HUNG, SLOW
from tests.instruments.faults.verdict import concluded_by_source, events
from tests.support.recordings import unpacked

pytestmark = pytest.mark.xdist_group("expiry")  # one process unpacks the recording, or records, for all
RECORDING = Path(__file__).with_name("expiry.tar.xz")
EXPIRING, STRANDED = "MESSAGES_EXPIRING", "MESSAGES_STRANDED"
GROUPS = [f"{HUNG}-group", f"{SLOW}-group"]
SECONDS = 1_000
IN_MEMORY = 1_000 + 2 * 32
"""A client pulls until it has pullThresholdForQueue messages; two batches may come beyond."""
OF_ONE_FILE = 330
"""A queue's messages in one file of the store, of which there are about 600, at most half and a batch."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(lambda folder: unpacked(RECORDING, folder), id="recorded"),
        pytest.param(expiry_run.play, id="live", marks=[pytest.mark.live, pytest.mark.prove]),
    ],
)
def played(request, tmp_path_factory):
    """The run, and what each source leads to."""
    folder = request.param(tmp_path_factory.mktemp("expiry"))
    run = msgspec.json.decode((folder / "run.json").read_bytes(), type=expiry_run.Run)
    log = events(folder)
    return run, concluded_by_source(log)


def transitions_of(conclusions, code, group):
    """Return the transitions of a code in a group."""
    return [one for one in conclusions.transitions(code) if one.group == group]


def deleted_at(log, queue_id, offset):
    """Return when the client saw that the broker no longer stores an offset."""
    return next(one.at for one in log.begins if one.queue_id == queue_id and one.oldest > offset)


def gaps(log, until):
    """Return what a listener never received: queue, first and last offset, and when the broker had deleted it."""
    pairs = [(one, then) for one, then in pairwise(log.received) if one.queue_id == then.queue_id]
    missing = [(one.queue_id, one.last + 1, then.first - 1) for one, then in pairs]
    return [(*one, at) for one in missing if (at := deleted_at(log, one[0], one[2])) <= until]


def test_messages_were_deleted_that_no_listener_received(played):
    """The recording shows what it is for, by the clients alone; the slow group loses some again and again."""
    run, _ = played
    lost = {group: gaps(run.logs[group], run.ended) for group in GROUPS}
    for group in GROUPS:
        assert {queue_id for queue_id, *_ in lost[group]} == {0, 1}
        begun = {(one.queue_id, one.oldest) for one in run.logs[group].begins}
        assert {(queue_id, last + 1) for queue_id, _, last, _ in lost[group]} <= begun  # where the broker begins
    assert len(lost[GROUPS[1]]) > 2


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_reported_before(played, source):
    run, by = played
    assert [one for one in by[source].transitions() if one.time <= run.slowed] == []
    assert [one for one in by[source].transitions(EXPIRING, STRANDED) if one.time <= run.deletion_began] == []


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("source", [POLL, BOTH])
def test_deletion_that_comes_near_is_a_warning_and_then_critical(played, source, group):
    run, by = played
    warned, lost, *_ = transitions_of(by[source], EXPIRING, group)
    assert (warned.transition, warned.severity, warned.sub_cause) == ("OPENED", "warning", "")
    assert (lost.transition, lost.severity, lost.sub_cause) == ("ESCALATED", "critical", "DELETED")
    log, evidence = run.logs[group], json.loads(warned.evidence)
    queue_id = int(evidence["queue_names"].rpartition(":")[2])
    first = evidence["oldest_offset"] + evidence["messages_left"]  # the first message that was not pulled
    truth = deleted_at(log, queue_id, first)
    assert warned.time <= truth
    assert abs(warned.time + evidence["time_left_ms"] - truth) <= 30 * SECONDS
    unread = json.loads(lost.evidence)
    assert 0 < unread["messages_deleted"] <= 2 * OF_ONE_FILE  # of two queues
    queue_id, first, *_ = min(gaps(log, run.ended), key=lambda one: deleted_at(log, one[0], one[1]))
    assert deleted_at(log, queue_id, first) <= lost.time <= deleted_at(log, queue_id, first + IN_MEMORY) + 20 * SECONDS


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("source", SOURCES)
def test_messages_that_no_consumer_got_are_counted(played, source, group):
    run, by = played
    opened = transitions_of(by[source], STRANDED, group)[0]
    assert (opened.transition, opened.severity, opened.sub_cause) == ("OPENED", "warning", "EXPIRED")
    evidence = json.loads(opened.evidence)
    lost = gaps(run.logs[group], opened.time)
    number = sum(last + 1 - first for _, first, last, _ in lost)
    assert {int(one) for one in evidence["queue_names"].rpartition(":")[2].split(",")} <= {one for one, *_ in lost}
    least = number - len(lost) * IN_MEMORY - (len(lost) * OF_ONE_FILE if source == POLL else 0)
    assert max(1, least) <= evidence["messages"] <= number
    continued = max(at for *_, at in lost)
    assert continued <= opened.time <= continued + 45 * SECONDS


@pytest.mark.parametrize("source", [POLL, BOTH])
def test_the_group_that_continued_is_not_expiring_any_more(played, source):
    run, by = played
    last = transitions_of(by[source], EXPIRING, GROUPS[0])[-1]
    assert last.transition == "RESOLVED"
    assert run.released <= last.time <= run.released + 15 * SECONDS  # the next answer


def test_the_hook_alone_does_not_see_what_is_stored(played):
    _, by = played
    assert by[HOOK].transitions(EXPIRING) == []


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_else_is_reported_but_that_the_groups_are_slow(played, source):
    _, by = played
    others = {one.code for one in by[source].transitions()} - {EXPIRING, STRANDED}
    assert others <= {"QUEUE_STALLED", "LAG_GROWTH"}
