"""A queue that its client drops and takes again has not recovered: one incident that stays (issue 49, A4)."""

import pytest

from rebalance_model.observe.events import ConsumerRunningInfo, ConsumeStats
from tests.support.field import SOURCES, changed, changed_events, concluded, concluded_of, events_of, numbered

LOST, PAUSED, TIMED_OUT = (
    "02-pulls-lost-after-network-loss",
    "04-ordered-pull-is-pause-loop",
    "24-cpp-pull-timeout-loop",
)
CODE = {LOST: "PULL_EXPIRED", PAUSED: "ORDERED_QUEUE_STUCK", TIMED_OUT: "ORDERED_QUEUE_STUCK"}
QUEUES = {LOST: 8, PAUSED: 2, TIMED_OUT: 4}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", CODE)
def test_it_is_one_incident_to_the_end_with_its_cause(name, source):
    conclusions = concluded(name, source)
    opened = [one for one in conclusions.transitions(CODE[name]) if one.transition == "OPENED"]
    assert len(opened) == len({one.subject for one in opened}) == QUEUES[name]
    at_end = [one for one in conclusions.open_at_end() if one.code == CODE[name]]
    assert {(one.sub_cause, one.severity) for one in at_end} == {("RETAKEN", "critical")}
    assert len(at_end) == QUEUES[name]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", [LOST, TIMED_OUT])
def test_the_queues_of_one_client_share_one_incident(name, source):
    at_end = [one for one in concluded(name, source).open_at_end() if one.code == CODE[name]]
    [root] = [one for one in at_end if one.parent is None]
    assert {one.parent for one in at_end if one is not root} == {root.incident_id}


@pytest.mark.parametrize("source", SOURCES)
def test_no_message_is_called_poison_that_no_listener_has(source):
    causes = {one.sub_cause for one in concluded(TIMED_OUT, source).transitions("ORDERED_QUEUE_STUCK")}
    assert causes == {"RETAKEN"}
    late = [one for one in concluded(PAUSED, source).open_at_end() if one.code == "ORDERED_QUEUE_STUCK"]
    assert "SUSPEND_LOOP" not in {one.sub_cause for one in late}


def test_nothing_was_pulled_so_nothing_says_so():
    causes = {one.sub_cause for one in concluded(LOST, "hook").transitions("QUEUE_STALLED")}
    assert "LISTENER_BLOCKED" not in causes


def test_messages_that_are_consumed_end_it():
    """The commit follows the newest offset from 700 s on."""

    def repaired(event, second):
        if second < 700:
            return event
        if isinstance(event, ConsumeStats):
            rows = tuple(changed(one, consumer_offset=one.broker_offset) for one in event.queues or ())
            return changed(event, queues=rows)
        if isinstance(event, ConsumerRunningInfo):
            rows = tuple(
                changed(one, pull_time=event.asked, consume_time=event.asked - 500) for one in event.queues or ()
            )
            return changed(event, queues=rows)
        return event

    assert concluded_of(changed_events(LOST, "poll", repaired)).open_at_end() == []


def test_one_repair_is_not_again_and_again():
    """A near miss: the client takes its queues again once, and its pulls come since then."""

    def once(event, second):
        if not isinstance(event, ConsumerRunningInfo) or second < 400:
            return event
        rows = tuple(
            changed(one, pull_time=event.asked, lock_time=event.asked - int(second - 380) * 1000, cached_count=5)
            for one in event.queues or ()
        )
        return changed(event, queues=rows)

    found = concluded_of(changed_events(LOST, "poll", once))
    assert [one for one in found.open_at_end() if one.code == "PULL_EXPIRED"] == []


@pytest.mark.parametrize(("name", "begins"), [(LOST, 400), (PAUSED, 900), (TIMED_OUT, 400)])
def test_a_hook_that_started_late_shows_it_too(name, begins):
    """It has seen no commit advance, and of one case no commit at all."""
    events = events_of(name, "hook")
    late = events[0].time + begins * 1000
    conclusions = concluded_of(numbered(event for event in events if event.time > late))
    at_end = {(one.subject, one.sub_cause) for one in conclusions.open_at_end() if one.code == CODE[name]}
    assert {sub_cause for _, sub_cause in at_end} == {"RETAKEN"}
    assert len(at_end) == QUEUES[name]
    assert "UNASSIGNED" not in {one.sub_cause for one in conclusions.transitions()}


def test_answers_between_two_of_them_do_not_end_it():
    """For a minute the client has dropped its queues when it is asked."""

    def between(event, second):
        return changed(event, queues=()) if isinstance(event, ConsumerRunningInfo) and 1_000 < second < 1_060 else event

    conclusions = concluded_of(changed_events(LOST, "poll", between))
    assert {one.transition for one in conclusions.transitions("PULL_EXPIRED")} <= {
        "OPENED",
        "RECLASSIFIED",
        "DEESCALATED",
    }
