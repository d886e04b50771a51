"""A topic that all members have left: what waited then is stranded, not what is sent to it later (issue 32, A)."""

import msgspec
import pytest

from rebalance_model.observe.events import (
    AnyEvent,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    OffsetInfo,
)
from tests.support.field import Change, Concluded, changed, changed_events, concluded_of

CASE = "25-topic-no-longer-subscribed"
"""Members of the next release, which subscribe another topic, are there from 210 s on."""
ALONE = 400
"""When the last of them leaves: from then on the broker reports every topic of the group, as getConsumeStats does."""


def without_members(since: float = ALONE, until: float = 10_000, *, sent_per_second: float = 10) -> Change:
    """Let the group have no members for a while, in which the broker reports what was sent to the topic."""
    last: dict[str, tuple[OffsetInfo, ...]] = {}

    def change(event: AnyEvent, at: float) -> AnyEvent | None:
        if isinstance(event, ConsumeStats) and any(row.mq.topic == "Orders" for row in event.queues or ()):
            last["rows"] = event.queues or ()
        if not since <= at < until:
            return event
        if isinstance(event, ConsumerRunningInfo):
            return None
        if isinstance(event, ConsumerConnection):
            return changed(event, connections=(), subscriptions=(), error=None)
        if isinstance(event, ConsumeStats):
            return changed(event, queues=tuple(sent(row, round((at - 200) * sent_per_second)) for row in last["rows"]))
        return event

    return change


def sent(row: OffsetInfo, messages: int) -> OffsetInfo:
    """Return a queue's offsets after so many more messages were sent."""
    return row if row.mq.is_retry else changed(row, broker_offset=row.broker_offset + messages)


def consumed(event: AnyEvent, at: float) -> AnyEvent:
    """Let everything be consumed when the topic is left."""
    if not isinstance(event, ConsumeStats) or event.queues is None or at >= ALONE:
        return event
    return changed(event, queues=tuple(changed(row, consumer_offset=row.broker_offset) for row in event.queues))


def committed(event: AnyEvent, at: float) -> AnyEvent:
    """Let the last commit come after the last answer with the topic: nothing waited in truth."""
    if not isinstance(event, ConsumeStats) or event.queues is None or at < ALONE:
        return event
    rows = (row if row.mq.is_retry else changed(row, consumer_offset=row.consumer_offset + 3) for row in event.queues)
    return changed(event, queues=tuple(rows))


def stranded(conclusions: Concluded) -> list[tuple[str, int]]:
    """Return transition and number of messages of MESSAGES_STRANDED."""
    return [
        (one.transition, msgspec.json.decode(one.evidence)["messages"])
        for one in conclusions.transitions("MESSAGES_STRANDED")
    ]


def test_what_is_sent_to_a_topic_after_it_was_left_is_for_others():
    """With members or without: everything was consumed when they left it."""
    found = concluded_of(changed_events(CASE, "poll", consumed, without_members()))
    assert stranded(found) == stranded(concluded_of(changed_events(CASE, "poll", consumed))) == []
    assert found.queues()["Orders@broker-a:0"].status == "UNKNOWN"


def test_members_that_come_back_without_the_topic_change_nothing():
    """A deployment of two minutes, days after the topic was left."""
    assert stranded(concluded_of(changed_events(CASE, "poll", consumed, without_members(until=520)))) == []


@pytest.mark.parametrize("per_second", [0, 10, 500])
def test_what_waited_when_the_topic_was_left_is_one_warning(per_second):
    """Three messages of each queue, and it is told once, whatever is sent later."""
    found = concluded_of(changed_events(CASE, "poll", without_members(sent_per_second=per_second)))
    assert stranded(found) == [("OPENED", 12)]


def test_a_commit_that_came_later_resolves_it():
    """The broker reports that commit when the group has no members."""
    found = concluded_of(changed_events(CASE, "poll", without_members(), committed))
    assert stranded(found) == [("OPENED", 12), ("RESOLVED", 0)]


def test_what_is_sent_before_the_next_release_begins_is_stranded():
    """Nobody subscribes another topic yet: the group still wants what is sent."""
    found = concluded_of(changed_events(CASE, "poll", consumed, without_members(200, 300, sent_per_second=1)))
    [(transition, messages)] = stranded(found)
    assert transition == "OPENED"
    assert 4 * 85 <= messages <= 4 * 100


def test_without_a_newest_offset_all_that_waits_is_stranded():
    """The broker answers the request for offsets from 400 s on; subscriptions are known before."""

    def late(event: AnyEvent, at: float) -> AnyEvent | None:
        return None if isinstance(event, ConsumeStats) and at < ALONE else event

    [(transition, messages)] = stranded(concluded_of(changed_events(CASE, "poll", without_members(), late)))
    assert transition == "OPENED"
    assert 4 * 2003 <= messages <= 4 * 2103, "what was sent in the 200 s before the first answer, too"
