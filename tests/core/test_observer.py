"""The library's answers are those of its rows, and a question changes nothing."""

import contextlib
import re

import msgspec
import pytest

from rebalance_model import MessageQueue, ModelError, NotYetError, UnknownSubjectError, UsageError
from rebalance_model.observe import (
    GroupSnapshot,
    IncidentTransition,
    Observer,
    QueueSnapshot,
    RejectedError,
    decode,
)
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import BrokerStatus, RpcError, Tick
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import UnreadableStateError
from tests.support.simulated import simulate, small

TICK = Tick(time=0, cluster="sim", source="poll", source_id="poll-1@0", seq=1)
HANGS = {"at": 60, "do": "hang", "who": "c-1", "lasts": 120}


@pytest.fixture(scope="module")
def log():
    return sorted(simulate(small(HANGS), hook=False, poll=True).events, key=lambda event: event.time)


def fed(observer, events):
    return [row for event in events for row in observer.feed(event)]


def test_the_rows_are_those_of_a_shard(log):
    shard, now, expected = Shard(None, GroupsInMemory(), Policy()), 0, []
    for event in log:
        now = max(now, event.time)
        expected += shard.push(event, now)
    expected += shard.finish()
    observer = Observer()
    assert fed(observer, log) + observer.finish() == expected


def test_owners_members_and_incidents_are_those_of_the_rows(log):
    observer, owners, members, incidents, compared = Observer(), {}, (), {}, 0
    for event in log:
        for row in observer.feed(event):
            if isinstance(row, QueueSnapshot):
                owners[MessageQueue(row.topic, row.broker, row.queue_id)] = row.owner
            elif isinstance(row, GroupSnapshot):
                members = row.members
            elif isinstance(row, IncidentTransition) and row.group:
                incidents[row.code, row.subject] = row.sub_cause, row.severity, row.opened_at
                if row.transition == "RESOLVED":
                    del incidents[row.code, row.subject]
        if members:
            assert observer.members("sim", "g") == members
            assert {mq: observer.owner("sim", "g", mq) for mq in owners} == owners
            shown = observer.incidents("sim", "g")
            assert {(one.code, one.subject): (one.sub_cause, one.severity, one.opened_at) for one in shown} == incidents
            compared += len(shown)
    assert compared > 0


def test_incidents_of_the_cluster_are_those_of_its_rows(log):
    """From the middle of the log on the broker does not answer."""
    observer, expected, compared = Observer(), {}, 0
    for number, event in enumerate(log):
        is_down = isinstance(event, BrokerStatus) and number >= len(log) // 2
        error = {"error": RpcError(code=-1), "boot_time": None} if is_down else {}
        for row in observer.feed(msgspec.structs.replace(event, **error)):
            if isinstance(row, IncidentTransition) and not row.group:
                expected[row.code, row.subject] = row.severity
                if row.transition == "RESOLVED":
                    del expected[row.code, row.subject]
        if expected:
            assert {(one.code, one.subject): one.severity for one in observer.incidents("sim")} == expected
            compared += 1
    assert compared > 0


def test_a_stuck_queue_is_explained_with_its_evidence_and_its_steps(log):
    observer = Observer()
    for event in log:
        for row in observer.feed(event):
            if isinstance(row, IncidentTransition) and row.code == "ORDERED_QUEUE_STUCK" and row.transition == "OPENED":
                queue = MessageQueue(row.topic, row.broker, row.queue_id)
                explanation = observer.explain("sim", "g", queue)
                [incident] = [one for one in explanation.incidents if one.code == row.code]
                opened = msgspec.json.decode(row.evidence)
                assert incident.evidence.keys() == opened.keys()
                assert incident.evidence["owner"] == opened["owner"] == explanation.owner
                assert incident.evidence["consume_age_ms"] >= opened["consume_age_ms"]  # as of now
                assert (incident.sub_cause, explanation.owner) == (row.sub_cause, row.client_id)
                assert [type(step).__name__ for step in explanation.steps] == ["AssignmentChange", "IncidentTransition"]
                assert explanation.lag > 0
                return
    pytest.fail("no queue was stuck")


def test_a_question_changes_nothing(log):
    silent, asked = Observer(), Observer()
    for event in log:
        assert silent.feed(event) == asked.feed(event)
        for queue in asked.queues("sim", "g") if event.time % 7 == 0 and asked.groups() else ():
            asked.explain("sim", "g", queue)
    assert silent.save() == asked.save()


@pytest.mark.parametrize("part", [1, 2, 3])
def test_a_saved_observer_goes_on_as_the_one_that_was_not_saved(log, part):
    cut = part * len(log) // 4
    first = Observer()
    fed(first, log[:cut])
    second = Observer.load(first.save())
    assert fed(second, log[cut:]) == fed(first, log[cut:])
    assert second.finish() == first.finish()
    assert second.save() == first.save()


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda observer: observer.members("sim", "nobody"), "no event of group 'nobody' of cluster 'sim'"),
        (lambda observer: observer.incidents("elsewhere"), "no event of cluster 'elsewhere'"),
        (lambda observer: observer.owner("sim", "g", MessageQueue("No", "b", 0)), "group 'g' has no queue No@b:0"),
        (lambda observer: observer.explain("sim", "g", MessageQueue("No", "b", 0)), "group 'g' has no queue No@b:0"),
    ],
)
def test_what_no_event_has_shown_is_an_error_of_the_model(log, ask, sentence):
    observer = Observer()
    fed(observer, log)
    with pytest.raises(UnknownSubjectError, match=sentence) as raised:
        ask(observer)
    assert isinstance(raised.value, ModelError)
    assert observer.groups() == (("sim", "g"),)


def test_what_waits_is_answered_by_the_instant_that_is_said(log):
    observer, answers = Observer(), []
    for event in log:
        observer.feed(event)
        with contextlib.suppress(UnknownSubjectError):
            observer.members("sim", "g")
            break
        with pytest.raises(UnknownSubjectError) as raised:
            observer.members("sim", "g")
        answers.append(raised.value)
    waits = [error.known_at for error in answers if isinstance(error, NotYetError)]
    assert answers[0].args != answers[-1].args  # at first no event of the group had come
    assert log[0].time < event.time <= min(waits)


def test_a_group_that_began_later_is_known_by_the_instant_that_is_said(log):
    observer = Observer()
    fed(observer, log[: len(log) // 2])
    event = next(one for one in log if hasattr(one, "group"))
    now = log[len(log) // 2].time
    observer.feed(msgspec.structs.replace(event, time=now, group="another"))
    with pytest.raises(NotYetError) as raised:
        observer.members("sim", "another")
    assert now < raised.value.known_at < now + 60_000
    fed(observer, [one for one in log[len(log) // 2 :] if one.time <= raised.value.known_at])
    assert ("sim", "another") in observer.groups()


def test_lines_of_a_recording_lead_to_the_same_rows(log):
    rows = fed(Observer(), log)
    assert Observer().read(msgspec.json.encode(event) + b"\n" for event in log) == rows


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda observer: observer.feed("text"), UsageError, "an event and its stamp are needed, not str, NoneType"),
        (lambda observer: observer.feed(TICK, "now"), UsageError, "needed, not Tick, str"),
        (lambda observer: observer.feed(msgspec.structs.replace(TICK, time="0")), UsageError, r"Tick: .* at `\$.time`"),
        (lambda observer: observer.feed(msgspec.structs.replace(TICK, time=observer)), UsageError, "Tick: "),
        (lambda observer: observer.read(["{}"]), UsageError, "a value of the log is bytes, not str"),
        (lambda observer: observer.read([b"{}"]), RejectedError, "invalid"),
        (lambda _: decode("{}"), UsageError, "a value of the log is bytes, not str"),
        (lambda _: Observer.load("text"), UsageError, "is bytes, not str"),
        (lambda _: Observer.load(b"garbage"), UnreadableStateError, "."),
        (lambda _: Observer.load(b""), UnreadableStateError, "."),
    ],
)
def test_a_wrong_call_is_an_error_of_the_model_and_changes_nothing(log, call, error, sentence):
    observer = Observer()
    fed(observer, log[:500])
    before = observer.save()
    with pytest.raises(error, match=sentence) as raised:
        call(observer)
    assert isinstance(raised.value, ModelError)
    assert observer.save() == before


def test_an_observer_is_shown_with_its_groups_and_its_time(log):
    observer = Observer()
    assert repr(observer) == "<Observer of 0 groups at 0>"
    fed(observer, log)
    assert re.fullmatch(r"<Observer of 1 groups at \d+>", repr(observer))
