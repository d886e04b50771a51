"""Retry topics are queues like others: what hangs or stands there is said, however little it is (issue 49, A2)."""

import pytest

from rebalance_model.observe.events import ConsumeStats
from tests.support.field import SOURCES, changed, changed_events, concluded, concluded_of, without_answer

TIMED_OUT = "13-consume-timeout-sends-back"
"""After 1,400 s the client sends back a message that hangs, and it hangs again in the retry topic."""
NAMESPACE, ORDERED = "26-namespace-retry-not-consumed", "59-ordered-retry-queue-stands"
RETRY = {
    TIMED_OUT: "%RETRY%orders-group@broker-a:0",
    NAMESPACE: "%RETRY%MQ_INST_1%GID_orders@broker-a:0",
    ORDERED: "%RETRY%orders-group@broker-a:0",
}
SENT_BACK = {TIMED_OUT: 1402, NAMESPACE: 120, ORDERED: 120}
"""Seconds."""
OPENS_WITHIN = 120


def stalled(conclusions, name):
    """Return after how many seconds of waiting a stall of the retry queue is said, and as what."""
    found = [one for one in conclusions.transitions("QUEUE_STALLED") if one.subject == RETRY[name]]
    return [(one.transition, one.sub_cause, conclusions.seconds(one) - SENT_BACK[name] < OPENS_WITHIN) for one in found]


def stats_of(change):
    """Return a change of the rows of retry topics in answers with offsets."""

    def of_event(event, second):
        if not isinstance(event, ConsumeStats):
            return event
        rows = tuple(change(one, second) if one.mq.is_retry else one for one in event.queues or ())
        return changed(event, queues=rows)

    return of_event


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", RETRY)
def test_a_message_that_hangs_in_the_retry_topic_is_said(name, source):
    conclusions = concluded(name, source)
    sub_cause = "LISTENER_BLOCKED" if source == "hook" else "LISTENER_HUNG"
    assert stalled(conclusions, name) == [("OPENED", sub_cause, True)]
    assert conclusions.group().health == "WARN"
    assert conclusions.queues()[RETRY[name]].status == "WARN"


@pytest.mark.parametrize("name", RETRY)
@pytest.mark.parametrize("code", [207, 16, 1])
def test_it_is_said_by_offsets_alone_if_no_member_answers(name, code):
    """The commit is 0 in some: clients read a retry topic from its beginning, so nothing of it is consumed."""

    events = changed_events(name, "poll", lambda event, _: without_answer(event, code))
    found = stalled(concluded_of(events), name)
    assert [(transition, in_time) for transition, _, in_time in found] == [("OPENED", True)]


@pytest.mark.parametrize("name", [NAMESPACE, ORDERED])
def test_it_is_resolved_once_the_commit_advances(name):
    def consumed(row, second):
        return changed(row, consumer_offset=row.broker_offset) if second > 500 else row

    events = changed_events(name, "poll", stats_of(consumed))
    assert [one for one, _, _ in stalled(concluded_of(events), name)] == ["OPENED", "RESOLVED"]


@pytest.mark.parametrize("name", [NAMESPACE, ORDERED])
def test_a_retry_topic_that_is_consumed_slowly_is_not_stalled(name):
    """A near miss: each message takes a minute, and some always wait."""

    def slow(row, second):
        return changed(row, consumer_offset=min(row.broker_offset, row.consumer_offset + int(second // 60)))

    assert stalled(concluded_of(changed_events(name, "poll", stats_of(slow))), name) == []
