"""Queues whose offsets began again: their topic was created again, or their broker lost messages."""

import json

import pytest

from rebalance_model.observe.effects import QueueSnapshot
from rebalance_model.observe.events import ConsumeStats, PullMessage
from rebalance_model.observe.progress.state import behind_by
from tests.support.field import SOURCES, changed, concluded, concluded_of, events_of, numbered

CASE = "05c-topic-recreated-connector"
START = 1_800_000_000_000
QUEUE = "Orders@broker-a:0"


LOST = "06-offsets-lost"
"""Its commits fall between the answers after 258 and 269 s, and have passed the mark after 305 s."""


def with_offsets(events, change):
    """Return the events with other rows in the brokers' offsets."""
    return [
        changed(one, queues=tuple(change(one, info) for info in one.queues)) if isinstance(one, ConsumeStats) else one
        for one in events
    ]


@pytest.mark.parametrize("source", SOURCES)
def test_a_reader_that_asks_for_an_illegal_offset_is_named(source):
    conclusions = concluded(CASE, source)
    last = {one.queue_id: one for one in conclusions.open_at_end()}
    assert {one.code for one in last.values()} == {"OFFSET_REGRESSION"}
    assert {one.sub_cause for one in last.values()} == {"BEYOND_END" if source == "poll" else "ILLEGAL_OFFSET"}
    assert {one.severity for one in last.values()} == {"critical"}
    assert set(last) == {0, 1, 2, 3}
    assert conclusions.group().health == "BAD"
    if source != "poll":
        assert (last[0].client_id, last[3].client_id) == ("10.0.0.1@c1", "10.0.0.2@c2")


@pytest.mark.parametrize(("source", "sub_causes"), [("both", {"BEYOND_END"}), ("hook", set())])
def test_by_a_broker_of_5_x_only_polls_show_such_a_reader(source, sub_causes):
    """Its hook sees no code 21: once a second a pull of the same offset, as of a client whose pulls are not held."""
    events = [
        changed(one, code=None) if isinstance(one, PullMessage) and one.code == 21 else one
        for one in events_of(CASE, source)
    ]
    assert {one.sub_cause for one in concluded_of(events).open_at_end()} == sub_causes


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_fall_of_the_newest_offset_is_named_with_both_numbers(source):
    opened = concluded(CASE, source).transitions("OFFSET_REGRESSION")[0]
    assert (opened.transition, opened.sub_cause) == ("OPENED", "NEWEST_FELL")
    evidence = json.loads(opened.evidence)
    assert (evidence["newest_fell_from"], evidence["newest_fell_to"]) == (1292, 2)


def test_lag_is_unknown_while_the_commit_is_beyond_the_newest_offset():
    assert behind_by(400, 1299) is None
    assert behind_by(1300, 1299) == 1
    rows = [one for one in concluded(CASE, "poll").effects if isinstance(one, QueueSnapshot)]
    assert rows
    assert {one.status for one in rows if one.time > START + 260_000 and one.topic == "Orders"} == {"BAD"}


def test_a_reader_that_follows_reads_nothing_again():
    """The commit falls with the newest offset: that is no regression up to the mark of the former topic."""

    def followed(event, info):
        late = event.time > START + 215_000
        return changed(info, consumer_offset=max(0, info.broker_offset - 1)) if late else info

    found = concluded_of(with_offsets(events_of(CASE, "poll"), followed))
    assert {(one.code, one.sub_cause) for one in found.transitions()} == {("OFFSET_REGRESSION", "NEWEST_FELL")}
    assert "fell_from" not in json.loads(found.transitions()[0].evidence)


def test_a_hook_that_starts_late_does_not_end_what_polls_have_proved():
    """It has seen no commit before the fall, so that it sees none disproves nothing; its commits are seen earlier."""
    events = events_of(LOST, "both")
    late = [one for one in events if one.source_id[:4] == "poll" or one.time >= events[0].time + 285_000]
    conclusions = concluded_of(numbered(late))
    rows = conclusions.transitions("OFFSET_REGRESSION")
    assert [(one.transition, one.sub_cause) for one in rows] == [("OPENED", "POLLED")] * 2 + [
        ("RESOLVED", "POLLED")
    ] * 2
    assert all(300 < conclusions.seconds(one) <= 305 for one in rows[2:])


def test_a_hook_that_sees_the_mark_passed_ends_it_before_the_next_answer():
    """The hook began again with another replica: it has not seen the commits before the fall."""
    rows = concluded(LOST, "both").transitions("OFFSET_REGRESSION")
    assert [(one.transition, one.sub_cause) for one in rows] == [("OPENED", "FAILOVER")] * 2 + [
        ("RESOLVED", "FAILOVER")
    ] * 2


def test_an_offset_corrected_after_code_21_claims_no_duplicates():
    """By its hook: the reader goes to the beginning after ten seconds, and goes on there."""
    events = []
    for event in events_of(CASE, "hook"):
        if isinstance(event, PullMessage) and event.time > START + 212_000:
            at = (event.time - START - 200_000) // 1000
            events.append(
                changed(event, code=None, first_offset=at - 1, last_offset=at, commit_offset=max(0, at - 1), count=2)
            )
        else:
            events.append(event)
    found = concluded_of(events)
    after = [one for one in found.transitions() if one.time > START + 200_000]
    assert {(one.code, one.sub_cause) for one in after} == {("OFFSET_REGRESSION", "NEWEST_FELL")}


def test_a_commit_that_overtakes_one_answer_is_no_fault():
    """A broker reads the newest offset first, and the commit after it (AdminBrokerProcessor.getConsumeStats)."""

    def overtaken(event, info):
        early = START + 90_000 < event.time < START + 100_000
        return changed(info, consumer_offset=info.broker_offset + 3) if early else info

    events = [one for one in events_of(CASE, "poll") if one.time < START + 195_000]
    assert concluded_of(with_offsets(events, overtaken)).transitions() == []


def test_a_slave_that_is_behind_its_master_has_lost_nothing():
    events = []
    for event in events_of(CASE, "poll"):
        if isinstance(event, ConsumeStats) and START + 90_000 < event.time < START + 100_000:
            rows = (
                changed(i, broker_offset=i.broker_offset - 30, consumer_offset=i.consumer_offset) for i in event.queues
            )
            events.append(changed(event, broker_id=1, queues=tuple(rows)))
        elif event.time < START + 195_000:
            events.append(event)
    assert concluded_of(events).transitions() == []
