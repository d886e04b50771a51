"""Lag is not waiting: messages that a filter leaves out, and of which a client commits nothing (issue 49, A6)."""

import pytest

from rebalance_model.observe.events import ConsumerRunningInfo, ConsumeStats, HeartBeat, PullMessage
from tests.support.field import SOURCES, changed, changed_events, concluded, concluded_of, without_answer

GO, JAVA = "07-tag-never-matches-go", "08-tag-never-matches-java"


def everything(event, _):
    """Return an event as it is if the group subscribes all messages: nothing is left out then."""
    if not isinstance(event, ConsumerRunningInfo | HeartBeat) or not event.subscriptions:
        return event
    return changed(event, subscriptions=tuple(changed(one, sub_string="*") for one in event.subscriptions))


def warnings(conclusions):
    """Return the codes and sub-causes of what is more than an info."""
    return {(one.code, one.sub_cause) for one in conclusions.transitions() if one.severity != "info"}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", [GO, JAVA])
def test_what_is_left_out_is_an_info_and_blames_nobody(name, source):
    conclusions = concluded(name, source)
    at_end = {(one.code, one.sub_cause, one.severity) for one in conclusions.open_at_end()}
    assert at_end == {("QUEUE_STALLED", "FILTERED", "info")}
    assert warnings(conclusions) == set()
    assert conclusions.group().health == "OK"


@pytest.mark.parametrize("source", ["poll", "both"])
def test_it_is_known_though_no_member_answers(source):
    """The broker's table has the expression, and its offsets show that the group reads to the end."""
    found = concluded_of(changed_events(GO, source, lambda event, _: without_answer(event, 3)))
    assert {(one.code, one.sub_cause) for one in found.transitions()} == {("QUEUE_STALLED", "FILTERED")}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", [GO, JAVA])
def test_without_a_filter_the_commit_stands_for_another_reason(name, source):
    assert "QUEUE_STALLED" in {code for code, _ in warnings(concluded_of(changed_events(name, source, everything)))}


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_client_that_has_messages_does_not_leave_them_out(source):
    """A listener hangs in a group with a filter; Java's client reports what it has."""

    def hung(event, _):
        if not isinstance(event, ConsumerRunningInfo):
            return event
        rows = tuple(one if one.mq.is_retry else changed(one, cached_count=7) for one in event.queues or ())
        return changed(event, queues=rows)

    found = warnings(concluded_of(changed_events(JAVA, source, hung)))
    assert ("QUEUE_STALLED", "LISTENER_HUNG") in found


def test_by_hook_a_client_that_no_longer_pulls_does_not_leave_messages_out():
    """It has as many as it may, and holds back, from 300 s on."""

    def stops(event, second):
        return None if isinstance(event, PullMessage) and second > 300 else event

    found = concluded_of(changed_events(JAVA, "hook", stops)).open_at_end()
    assert {one.severity for one in found} & {"warning", "critical"}


def test_it_is_resolved_when_the_commit_follows():
    """As of a client that commits what was left out."""

    def commits(event, second):
        if not isinstance(event, ConsumeStats) or second < 400:
            return event
        return changed(event, queues=tuple(changed(one, consumer_offset=one.broker_offset) for one in event.queues))

    assert concluded_of(changed_events(JAVA, "poll", commits)).open_at_end() == []


def test_of_an_ordered_group_it_is_an_info_too():
    def ordered(event, _):
        if not isinstance(event, ConsumerRunningInfo):
            return event
        rows = tuple(changed(one, locked=True, lock_time=one.pull_time) for one in event.queues or ())
        return changed(event, orderly=True, queues=rows)

    at_end = concluded_of(changed_events(JAVA, "poll", ordered)).open_at_end()
    assert {(one.code, one.sub_cause, one.severity) for one in at_end} == {("ORDERED_QUEUE_STUCK", "FILTERED", "info")}


def test_a_broker_without_pull_offsets_shows_no_filter_at_work():
    """OffsetWrapper.pullOffset exists since 5.x."""

    def older(event, _):
        if not isinstance(event, ConsumeStats):
            return event
        return changed(event, queues=tuple(changed(one, pull_offset=-1) for one in event.queues or ()))

    found = concluded_of(changed_events(JAVA, "poll", older))
    assert ("QUEUE_STALLED", "NOTHING_RECEIVED") in warnings(found)
    assert "FILTERED" not in {one.sub_cause for one in found.transitions()}
