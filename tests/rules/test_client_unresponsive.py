"""CLIENT_UNRESPONSIVE: a client that does not answer requests."""

from tests.support.rounds import FOUR, MINE, evidence, rounds
from tests.support.trace import SILENT, Trace, holding


def test_a_client_that_does_not_answer_twice_is_unresponsive_until_it_does():
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 60, {"a": SILENT, "b": holding(2, 3)})
    rounds(trace, 60, 80, FOUR)
    assert trace.incidents("CLIENT_UNRESPONSIVE") == [
        (30, "OPENED", "CLIENT_UNRESPONSIVE"),
        (60, "RESOLVED", "CLIENT_UNRESPONSIVE"),
    ]
    assert evidence(trace, "CLIENT_UNRESPONSIVE")["queues"] == 2


def test_one_unanswered_request_is_a_near_miss():
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, {"a": SILENT, "b": holding(2, 3)})
    rounds(trace, 30, 60, FOUR)
    trace.poll(60, {"a": SILENT, "b": holding(2, 3)})
    rounds(trace, 70, 90, FOUR)
    assert trace.incidents(*MINE) == []


def test_a_client_on_two_channels_may_be_asked_on_the_dead_one():
    """The broker forwards the request to one channel of that id; after its restart that may be closed."""
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.listed_twice = "a"
    rounds(trace, 20, 60, {"a": SILENT, "b": holding(2, 3)})
    assert trace.incidents("CLIENT_UNRESPONSIVE") == []


def test_the_incident_of_a_removed_unresponsive_client_resolves():
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 60, {"a": SILENT, "b": holding(2, 3)})
    trace.poll(60, {"b": holding(0, 1, 2, 3)})
    assert trace.incidents("CLIENT_UNRESPONSIVE")[-1] == (60, "RESOLVED", "CLIENT_UNRESPONSIVE")
