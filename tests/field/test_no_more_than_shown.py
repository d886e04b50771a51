"""A cause claims no more than telemetry shows (issue 49, A9)."""

import pytest

from rebalance_model.observe.events import ConsumerRunningInfo, ThreadStack
from tests.support.field import SOURCES, changed, changed_events, concluded, concluded_of, events_of

NOBODY, LEAK, LOST, LEAKED, NO_BROKER = (
    "01-queues-of-restarted-broker-nobody",
    "05-go-flow-control-leak",
    "06-message-never-leaves-cache",
    "55-leaked-message-others-go-on",
    "46-go-no-broker-found",
)
STANDS = "Orders@broker-a:1"


def causes(conclusions, code):
    """Return the subjects of a code's incidents at the end, with their sub-causes."""
    return {(one.subject, one.sub_cause) for one in conclusions.open_at_end() if one.code == code}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("name", "sub_cause"), [(LOST, "LISTENER_HUNG"), (LEAKED, "MESSAGE_HELD")])
def test_a_message_that_is_not_finished_may_hang_or_be_lost(name, sub_cause, source):
    conclusions = concluded(name, source)
    expected = "LISTENER_BLOCKED" if source == "hook" else sub_cause
    assert causes(conclusions, "QUEUE_STALLED") == {(STANDS, expected)}
    [said] = [one for one in conclusions.open_at_end() if one.code == "QUEUE_STALLED"]
    assert "a listener has not returned" in said.explanation
    assert "lost track of" in said.explanation
    assert "if none is in the listener" in said.first_step


def asked_for_stacks(second, **given):
    """Return a change: the clients are asked for their stacks at that time."""

    def dumped(event, at):
        if not isinstance(event, ConsumerRunningInfo) or event.queues is None or not second <= at < second + 10:
            return event
        return changed(event, stacks_asked=True, **given)

    return dumped


STACK = ThreadStack(name="ConsumeMessageThread_1", state="WAITING", frames=("com.acme.Orders.consume",))


@pytest.mark.parametrize(
    ("given", "sub_cause"), [({}, "MESSAGE_LOST"), ({"stacks": (STACK,)}, "LISTENER_HUNG"), (None, "LISTENER_HUNG")]
)
def test_a_message_is_lost_if_no_thread_is_in_the_listener(given, sub_cause):
    """Asked, and none; asked, and one; not asked."""
    end = events_of(LOST, "poll")[-1].time - events_of(LOST, "poll")[0].time
    changes = [asked_for_stacks(end / 1000 - 60, **given)] if given is not None else []
    conclusions = concluded_of(changed_events(LOST, "poll", *changes))
    assert causes(conclusions, "QUEUE_STALLED") == {(STANDS, sub_cause)}
    [said] = [one for one in conclusions.open_at_end() if one.code == "QUEUE_STALLED"]
    assert ("lost track" in said.explanation, "a listener has not returned" in said.explanation) == (
        True,
        sub_cause != "MESSAGE_LOST",
    )


def test_stacks_of_before_the_stall_prove_nothing():
    conclusions = concluded_of(changed_events(LOST, "poll", asked_for_stacks(0)))
    assert causes(conclusions, "QUEUE_STALLED") == {(STANDS, "LISTENER_HUNG")}


def test_a_batch_may_be_what_takes_long():
    def in_batches(event, _):
        if not isinstance(event, ConsumerRunningInfo) or event.queues is None:
            return event
        return changed(event, properties=event.properties | {"consumeMessageBatchMaxSize": "32"})

    conclusions = concluded_of(changed_events(LOST, "poll", in_batches))
    assert causes(conclusions, "QUEUE_STALLED") == {(STANDS, "LISTENER_BATCH")}
    [said] = [one for one in conclusions.open_at_end() if one.code == "QUEUE_STALLED"]
    assert '"consume_batch":32' in said.evidence


def test_its_cause_stays_though_later_messages_come_seldom():
    """A message behind it is consumed every two minutes only."""

    def seldom(event, second):
        if not isinstance(event, ConsumerRunningInfo):
            return event
        ago = int(second % 120) * 1000
        rows = tuple(
            changed(one, consume_time=min(one.consume_time or 0, event.asked - ago)) for one in event.queues or ()
        )
        return changed(event, queues=rows)

    found = concluded_of(changed_events(LEAKED, "poll", seldom)).transitions("QUEUE_STALLED")
    assert len(found) <= 3


@pytest.mark.parametrize(("source", "sub_cause"), [("poll", "NOTHING_RECEIVED"), ("both", "HOLDS_BACK")])
def test_one_queue_of_several_is_not_suspended(source, sub_cause):
    assert causes(concluded(LEAK, source), "ORDERED_QUEUE_STUCK") == {(STANDS, sub_cause)}


@pytest.mark.parametrize("source", ["poll", "both"])
def test_members_without_a_broker_prove_nothing_of_name_servers(source):
    conclusions = concluded(NOBODY, source)
    [said] = [one for one in conclusions.open_at_end() if one.code == "ROUTE_VIEW_SPLIT"]
    assert (said.sub_cause, said.parent) == ("NOT_TAKEN_UP", None)
    assert '"broker_back_at":' in said.evidence
    assert {one.code for one in conclusions.open_at_end() if one.parent is None} == {"ROUTE_VIEW_SPLIT"}


@pytest.mark.parametrize("source", ["poll", "both"])
def test_pulls_that_go_nowhere_are_not_called_refused(source):
    found = [one for one in concluded(NO_BROKER, source).open_at_end() if one.code == "QUEUE_STALLED"]
    assert {one.sub_cause for one in found} == {"NOTHING_RECEIVED"}
    assert "do not reach the broker" in found[0].explanation
