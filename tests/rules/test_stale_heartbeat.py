"""STALE_HEARTBEAT: a member without recent heartbeats."""

from tests.support.hook_trace import HookTrace
from tests.support.incident_rows import distinct_transitions, evidence
from tests.support.lock_traces import ordered


def test_a_heartbeat_is_stale_past_two_intervals_and_fresh_with_the_next():
    """SIGSTOP at 305, last heartbeat 277.1."""
    trace = ordered(277.1).passes(300).locks(306, "a", 0, 1).locks(306, "b", 2, 3)
    trace.heart_beat(307, "b").locks(330, "b", 2, 3).passes(337.1)
    assert trace.incidents("STALE_HEARTBEAT") == []
    trace.passes(337.2).heart_beat(340, "a")
    assert distinct_transitions(trace, "STALE_HEARTBEAT") == [
        (337.101, "OPENED", "STALE_HEARTBEAT"),
        (340, "RESOLVED", "STALE_HEARTBEAT"),
    ]


def test_a_stale_member_that_is_dropped_is_stale_no_more():
    trace = ordered()
    for at in range(20, 140, 20):
        trace.heart_beat(at, "b").passes(at + 19)
    assert distinct_transitions(trace, "STALE_HEARTBEAT") == [
        (60.001, "OPENED", "STALE_HEARTBEAT"),
        (61.002, "ESCALATED", "STALE_HEARTBEAT"),  # a lock of it has expired for all
        (130.001, "RESOLVED", "STALE_HEARTBEAT"),
    ]
    assert evidence(trace, "STALE_HEARTBEAT")[0]["heartbeat_age_ms"] == 60_001


def test_a_heartbeat_that_may_have_been_lost_is_not_stale():
    trace = ordered().heart_beat(30, "b")
    trace.hook_seq["broker-a-0"] += 1
    trace.heart_beat(50, "b").heart_beat(80, "b").passes(100)
    assert trace.incidents("STALE_HEARTBEAT") == []


def test_a_member_that_was_frozen_before_the_hook_began_is_stale_too():
    trace = HookTrace().lists(0, "a", "b").heart_beat(1, "b").heart_beat(31, "b").passes(61)
    assert distinct_transitions(trace, "STALE_HEARTBEAT") == [(60.001, "OPENED", "STALE_HEARTBEAT")]
