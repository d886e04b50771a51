"""POP_HELD_LONG, and ORDERED_QUEUE_STUCK of a queue that is popped in order, by hooks."""

from tests.support.hook_trace import A, B
from tests.support.incident_rows import distinct_transitions, evidence
from tests.support.pop_trace import PROXY, PopTrace

MINE, STUCK = "POP_HELD_LONG", "ORDERED_QUEUE_STUCK"
BLOCKED = f"{STUCK} POP_BLOCKED"


def renewed(until: int, *, order: bool = False) -> PopTrace:
    """A message is popped at 1, and renewed 5 s before the end of its time."""
    trace = PopTrace().boots(0).pops(1, PROXY, order=order)
    trace.changes(55, PROXY, 7, popped=1, to=60, order=order)
    return trace.passes(until)


def test_a_message_that_a_proxy_renews_is_held_after_a_minute():
    trace = renewed(70)
    assert distinct_transitions(trace, MINE) == [(61.001, "OPENED", MINE)]
    found = evidence(trace, MINE)[0]
    assert (found["messages"], found["held_offset"], found["held_ms"]) == (1, 7, 60_001)


def test_it_ends_with_its_acknowledgement():
    trace = renewed(70).acks(80, PROXY, 7, popped=55)
    assert distinct_transitions(trace, MINE)[-1] == (80, "RESOLVED", MINE)


def test_a_message_that_is_acknowledged_within_a_minute_is_a_near_miss():
    trace = PopTrace().boots(0).pops(1, PROXY).changes(55, PROXY, 7, popped=1, to=60)
    trace.acks(60, PROXY, 7, popped=55).passes(200)
    assert trace.incidents(MINE) == []


def test_a_refused_message_is_not_held():
    trace = PopTrace().boots(0).pops(1, PROXY).changes(2, PROXY, 7, popped=1, to=10).passes(100)
    assert trace.incidents(MINE) == []


def test_while_a_younger_message_may_be_held_for_long_it_stays_open():
    trace = renewed(40).changes(75, PROXY, 8, popped=21, to=60).passes(76)
    trace.acks(80, PROXY, 7, popped=55).passes(100)
    assert distinct_transitions(trace, MINE) == [(61.001, "OPENED", MINE)]
    trace.acks(101, PROXY, 8, popped=75)
    assert distinct_transitions(trace, MINE)[-1] == (101, "RESOLVED", MINE)


def test_lost_calls_of_another_broker_do_not_concern_it():
    trace = renewed(57).of(B).boots(57).pops(57.2, PROXY)
    trace.hook_seq["broker-b-0"] += 1
    trace.pops(58, PROXY).of(A).passes(70)
    assert distinct_transitions(trace, MINE) == [(61.001, "OPENED", MINE)]


def test_in_order_it_holds_back_the_messages_behind_it():
    trace = renewed(70, order=True)
    assert trace.incidents(MINE) == []
    assert distinct_transitions(trace, STUCK) == [(61.001, "OPENED", BLOCKED)]
    assert evidence(trace, STUCK)[0]["held_ms"] == 60_001
    trace.acks(80, PROXY, 7, popped=1, order=True)
    assert distinct_transitions(trace, STUCK)[-1] == (80, "RESOLVED", BLOCKED)


def test_an_acknowledgement_of_a_former_delivery_does_not_free_the_queue():
    """The broker answers it as any other, and the queue stays blocked (QueueLevelConsumerManager.commitAndNext)."""
    trace = renewed(70, order=True).acks(80, PROXY, 7, popped=0.5, order=True).passes(100)
    assert [one[1] for one in distinct_transitions(trace, STUCK)] == ["OPENED"]
