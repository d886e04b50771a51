"""MIXED_REQUEST_MODE: a topic of a group is popped and pulled at once."""

from tests.support.incident_rows import distinct_transitions, evidence
from tests.support.pop_trace import PROXY, PopTrace

MINE = "MIXED_REQUEST_MODE"


def both(pops: range, pulls: range) -> PopTrace:
    """One member pops, and another pulls the same topic, every 5 s."""
    trace = PopTrace().boots(0)
    for at in range(0, max(pops.stop, pulls.stop), 5):
        if at % 30 == 0:
            trace.heart_beat(at, "a", "b")
        if at in pops:
            trace.pops(at + 0.1, "a")
        if at in pulls:
            trace.pulls(at + 0.2, "b", 0)
    return trace


def test_a_topic_that_is_popped_and_pulled_for_40_s():
    trace = both(range(100), range(20, 100))
    assert distinct_transitions(trace, MINE) == [(60.201, "OPENED", MINE)]
    found = evidence(trace, MINE)[0]
    assert (found["topics"], found["mixed_ms"], found["limit_ms"], found["popping"]) == (1, 40_001, 40_000, "a")


def test_it_ends_when_one_of_both_has_not_been_seen_for_a_minute():
    trace = both(range(200), range(20, 100))
    assert distinct_transitions(trace, MINE)[-1][1:] == ("RESOLVED", MINE)
    assert 155 <= distinct_transitions(trace, MINE)[-1][0] <= 200


def test_a_change_of_the_mode_is_a_near_miss():
    """The others pull until they rebalance, up to 20 s later."""
    assert both(range(20, 200), range(45)).incidents(MINE) == []


def test_a_proxy_pops_what_a_classic_member_pulls():
    trace = PopTrace().boots(0)
    for at in range(0, 60, 5):
        trace.pops(at, PROXY).pulls(at + 0.2, "b", 0)
    assert [one[1] for one in distinct_transitions(trace, MINE)] == ["OPENED"]


def test_the_retry_topic_that_members_pull_is_another_topic():
    trace = PopTrace().boots(0)
    for at in range(0, 200, 5):
        if at % 30 == 0:
            trace.heart_beat(at, "a")
        trace.pops(at + 0.1, "a").pulls(at + 0.2, "a", 0, topic=f"%RETRY%{trace.state.group}")
    assert trace.incidents(MINE) == []
