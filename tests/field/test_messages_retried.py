"""MESSAGES_RETRIED: messages that listeners refuse come back again and again (issue 49, A2)."""

import json

import pytest

from rebalance_model.observe.events import ConsumeStats, PullMessage, UpdateConsumerOffset
from tests.support.field import SOURCES, changed, changed_events, concluded, concluded_of

FOR_EVER = "20-ordered-retry-for-ever"
"""From 120 s on a message comes back every 12 s; 4 a second are consumed of the topic."""
SENT_BACK_FROM, OPENS_AFTER = 120, 300
CODE = "MESSAGES_RETRIED"


def retried(offset, second, *, times=1, until=10**9):
    """Return the offset of a retry queue if so many messages come back instead of each, until then."""
    return int(offset * times) if second < until else None


def with_retries(source, times=1, until=10**9):
    """Return the case with other commits of its retry queue; those after ``until`` stay as they were then."""
    last = {"offset": 0}

    def counted(offset, second):
        last["offset"] = retried(offset, second, times=times, until=until) or last["offset"]
        return last["offset"]

    def change(event, second):
        if isinstance(event, ConsumeStats):
            rows = tuple(
                changed(
                    one,
                    broker_offset=counted(one.broker_offset, second),
                    consumer_offset=counted(one.consumer_offset, second),
                    pull_offset=counted(one.broker_offset, second),
                )
                if one.mq.is_retry
                else one
                for one in event.queues or ()
            )
            return changed(event, queues=rows)
        if isinstance(event, UpdateConsumerOffset) and event.topic.startswith("%RETRY%"):
            return changed(event, offset=counted(event.offset, second))
        is_pull = isinstance(event, PullMessage) and event.topic.startswith("%RETRY%")
        return None if is_pull and (times != 1 or second > until) else event

    return concluded_of(changed_events(FOR_EVER, source, change))


def said(conclusions):
    """Return the transitions, each with its severity and second."""
    return [(one.transition, one.severity, conclusions.seconds(one)) for one in conclusions.transitions(CODE)]


@pytest.mark.parametrize("source", SOURCES)
def test_a_few_messages_that_come_back_for_ever_are_an_info(source):
    conclusions = concluded(FOR_EVER, source)
    [(transition, severity, second)] = said(conclusions)
    assert (transition, severity) == ("OPENED", "info")
    assert OPENS_AFTER <= second - SENT_BACK_FROM <= OPENS_AFTER + 40
    evidence = json.loads(conclusions.transitions(CODE)[0].evidence)
    assert 250 <= evidence["retried_per_hour"] <= 330
    assert evidence["consumed"] > 30 * evidence["retried"]
    assert conclusions.group().health == "OK"


@pytest.mark.parametrize("source", ["poll", "hook"])
def test_many_of_them_are_a_warning(source):
    """Twenty come back instead of each: 100 a minute, beside 240 that are consumed."""
    assert [(one, severity) for one, severity, _ in said(with_retries(source, times=20))][:1] == [("OPENED", "warning")]


@pytest.mark.parametrize("source", ["poll", "hook"])
def test_messages_that_come_back_for_a_while_are_no_incident(source):
    """A near miss: the attempts of a few minutes after an outage."""
    assert said(with_retries(source, until=SENT_BACK_FROM + OPENS_AFTER - 40)) == []


@pytest.mark.parametrize("source", ["poll", "hook"])
def test_it_is_resolved_when_none_has_come_back_for_long(source):
    found = said(with_retries(source, until=700))
    assert [one for one, _, _ in found] == ["OPENED", "RESOLVED"]
    assert 700 + 600 < found[-1][2] < 700 + 800
