"""A commit that jumps forward over messages that nobody read is said (issue 49, A3)."""

import json

import pytest

from rebalance_model.observe.events import ConsumerRunningInfo, ConsumeStats, PullMessage
from tests.support.field import SOURCES, changed, changed_events, concluded, concluded_of

EXPIRED = "44-expired-before-consumed"
"""At 300 s the store has deleted what the group would read next; after 10 s the commit is 40,000."""
QUEUES, SKIPPED = 4, 23_000
CODE = "MESSAGES_STRANDED"


def said(conclusions):
    """Return the sub-cause, the number of messages and the queues of the incident that is open at the end."""
    [found] = [one for one in conclusions.open_at_end() if one.code == CODE]
    evidence = json.loads(found.evidence)
    return found.sub_cause, evidence["messages"], evidence["queue_names"]


@pytest.mark.parametrize("source", SOURCES)
def test_messages_that_were_deleted_unread_are_counted(source):
    conclusions = concluded(EXPIRED, source)
    sub_cause, messages, names = said(conclusions)
    assert sub_cause == ("JUMPED" if source == "poll" else "EXPIRED")
    assert 0.95 * QUEUES * SKIPPED < messages <= QUEUES * SKIPPED
    assert names == "Orders@broker-a:0,1,2,3"
    assert conclusions.group().health == "WARN"


def test_by_hook_an_offset_that_was_moved_is_a_jump():
    """No pull is refused: an operator has moved the commit."""
    events = changed_events(
        EXPIRED, "hook", lambda event, _: event if not isinstance(event, PullMessage) or event.code != 21 else None
    )
    assert said(concluded_of(events))[0] == "JUMPED"


def test_a_client_that_goes_on_has_read_what_it_commits():
    """A near miss: a slave may have served it, so the master has seen no pull; the client never dropped the queue."""

    def keeps(event, second):
        if not isinstance(event, ConsumerRunningInfo) or second < 295:
            return event
        rows = tuple(changed(one, dropped=False) for one in event.queues or ())
        return changed(event, queues=rows) if rows else None

    conclusions = concluded_of(changed_events(EXPIRED, "poll", keeps))
    assert conclusions.transitions(CODE) == []


@pytest.mark.parametrize("by", [999, 0])
def test_a_small_jump_may_be_what_was_pulled_since(by):
    def near(event, _):
        if not isinstance(event, ConsumeStats):
            return event
        rows = tuple(
            changed(one, consumer_offset=min(one.consumer_offset, 17_200 + by)) if not one.mq.is_retry else one
            for one in event.queues or ()
        )
        return changed(event, queues=rows)

    assert concluded_of(changed_events(EXPIRED, "poll", near)).transitions(CODE) == []


@pytest.mark.parametrize("source", ["poll", "both"])
def test_a_reset_to_an_earlier_time_ends_it(source):
    def back(event, second):
        if not isinstance(event, ConsumeStats) or second < 500:
            return event
        rows = tuple(
            changed(one, consumer_offset=18_000, pull_offset=18_100) if not one.mq.is_retry else one
            for one in event.queues or ()
        )
        return changed(event, queues=rows)

    conclusions = concluded_of(changed_events(EXPIRED, source, back))
    assert [one.transition for one in conclusions.transitions(CODE)] == ["OPENED", "RESOLVED"]
