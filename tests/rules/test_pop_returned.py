"""POP_RETURNED: popped messages come back, because they were not acknowledged, or were refused."""

from tests.support.incident_rows import distinct_transitions, evidence, rows
from tests.support.pop_trace import PROXY, PopTrace
from tests.support.trace import TOPIC

MINE = "POP_RETURNED"
EXPIRED, REJECTED = f"{MINE} EXPIRED", f"{MINE} REJECTED"


def acking(until: int, left: tuple[int, ...] = ()) -> PopTrace:
    """A proxy's clients acknowledge a message a second, but those that are left."""
    trace = PopTrace().boots(0)
    for at in range(until):
        trace.pops(at + 0.1, PROXY, invisible=20)
        if at not in left:
            trace.acks(at + 0.5, PROXY, at, popped=at + 0.1, invisible_ms=20_000)
    return trace


def test_a_message_that_nobody_acknowledges_comes_back():
    """Popped at 31 at the latest, invisible for 20 s, and 5 s later in the retry topic."""
    trace = acking(60, (30,))
    [(at, transition, what)] = distinct_transitions(trace, MINE)
    assert (transition, what) == ("OPENED", EXPIRED)
    assert 55 <= at <= 57
    assert (rows(trace, MINE)[0].severity, evidence(trace, MINE)[0]["expired"]) == ("info", 1)
    trace.passes(at + 60.1)
    assert distinct_transitions(trace, MINE)[-1][1:] == ("RESOLVED", EXPIRED)


def test_many_are_a_warning():
    trace = acking(62, tuple(range(20, 34)))
    assert rows(trace, MINE)[-1].severity == "warning"
    assert evidence(trace, MINE)[-1]["expired"] >= 10


def test_an_acknowledgement_just_in_time_is_a_near_miss():
    trace = acking(54, (30,)).acks(54.5, PROXY, 30, popped=30.1, invisible_ms=20_000).passes(120)
    assert trace.incidents(MINE) == []


def test_a_message_that_is_refused_for_a_minute_is_poison():
    trace = acking(10)
    topic = f"%RETRY%{trace.state.group}_{TOPIC}"
    trace.changes(10, PROXY, 0, popped=9.5, to=30, topic=topic)
    assert trace.incidents(MINE) == []  # its second delivery
    trace.changes(41, PROXY, 1, popped=40.5, to=60, topic=topic)
    assert distinct_transitions(trace, MINE) == [(41, "OPENED", REJECTED)]
    assert (rows(trace, MINE)[0].severity, evidence(trace, MINE)[0]["topic"]) == ("warning", TOPIC)
    trace.passes(101.1)
    assert distinct_transitions(trace, MINE)[-1] == (101.001, "RESOLVED", REJECTED)


def test_after_lost_calls_nothing_that_was_popped_before_has_come_back():
    trace = acking(31, (20, 21, 22))
    trace.hook_seq["broker-a-0"] += 1
    trace.acks(32, PROXY, 31, popped=31).passes(100)
    assert trace.incidents(MINE) == []


def test_a_gap_that_another_call_shows_is_one_of_acknowledgements_too():
    trace = acking(31, (20, 21, 22))
    trace.hook_seq["broker-a-0"] += 1
    trace.heart_beat(31.5, "a").acks(32, PROXY, 31, popped=31).passes(100)
    assert trace.incidents(MINE) == []
