"""A second source never knows less: no member answers what it consumes, and one queue's commit stands all the same."""

import pytest

from rebalance_model.observe.events import ConsumerRunningInfo, RpcError
from tests.support.field import SOURCES, changed, changed_events, concluded, concluded_of, events_of, without_answer

REFUSED = "03d-307-refused-by-acl"
"""A concurrent group; the collector's account may not send the request."""
WITHOUT_REQUEST = "03b-go-without-307-one-queue-stands"
"""An ordered group of clients in Go (rocketmq-client-go#1085)."""
SLOW = "51-unsupported-307-lag-grows"
ORDERED_LEAK = "05-go-flow-control-leak"
STANDS = "Orders@broker-a:1"
OPENS_WITHIN = 245
"""Seconds: 210 without an advance of the commit, and one poll."""


def stalled(conclusions):
    """Return subject, sub-cause and second of each stalled queue's incident."""
    opened = [one for one in conclusions.transitions("QUEUE_STALLED") if one.transition == "OPENED"]
    return [(one.subject, one.sub_cause, conclusions.seconds(one) < OPENS_WITHIN) for one in opened]


@pytest.mark.parametrize(
    ("source", "sub_cause"), [("hook", "LISTENER_BLOCKED"), ("both", "LISTENER_BLOCKED"), ("poll", "NOT_REPORTED")]
)
def test_what_one_source_proves_stays_proved_if_no_member_answers(source, sub_cause):
    conclusions = concluded(REFUSED, source)
    assert stalled(conclusions) == [(STANDS, sub_cause, True)]
    assert conclusions.group().health == "WARN"
    assert conclusions.queues()[STANDS].status == "WARN"


@pytest.mark.parametrize(("code", "remark"), [(207, "consumer Timeout"), (-2, "no answer"), (3, "not supported")])
@pytest.mark.parametrize("source", ["poll", "both"])
def test_it_does_not_matter_why_no_member_answers(source, code, remark):
    events = [
        changed(one, error=RpcError(code=code, remark=remark)) if isinstance(one, ConsumerRunningInfo) else one
        for one in events_of(REFUSED, source)
    ]
    assert [subject for subject, _, _ in stalled(concluded_of(events))] == [STANDS]


def test_a_queue_of_mute_ordered_clients_is_said_by_polls_too():
    conclusions = concluded(WITHOUT_REQUEST, "poll")
    assert [(one.code, one.subject, one.sub_cause) for one in conclusions.open_at_end()] == [
        ("QUEUE_STALLED", STANDS, "NOT_REPORTED")
    ]


@pytest.mark.parametrize("source", ["hook", "both"])
def test_a_group_whose_hook_sees_locks_is_ordered(source):
    assert concluded(WITHOUT_REQUEST, source).transitions("QUEUE_STALLED") == []


def test_an_owner_that_no_member_reports_is_unknown_and_not_absent():
    assert {one.sub_cause for one in concluded(SLOW, "poll").transitions("LAG_GROWTH")} == {"UNDETERMINED"}


@pytest.mark.parametrize("source", SOURCES)
def test_a_slow_queue_is_not_a_stalled_one(source):
    assert concluded(SLOW, source).transitions("QUEUE_STALLED") == []


@pytest.mark.parametrize(
    ("name", "code"), [("06-message-never-leaves-cache", "QUEUE_STALLED"), (ORDERED_LEAK, "ORDERED_QUEUE_STUCK")]
)
def test_a_queue_that_a_mute_member_may_have_is_not_called_unassigned(name, code):
    """The queue's owner does not answer, and the other members do: they know only that they do not have it."""
    owner = concluded(name, "poll").queues()[STANDS].owner

    def mute(event, _):
        is_owners = isinstance(event, ConsumerRunningInfo) and event.client_id == owner
        return without_answer(event, 3) if is_owners else event

    found = concluded_of(changed_events(name, "poll", mute)).open_at_end()
    assert {(one.code, one.sub_cause) for one in found if one.subject == STANDS and one.code == code} == {
        (code, "NOT_REPORTED")
    }
