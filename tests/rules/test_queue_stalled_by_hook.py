"""QUEUE_STALLED by the hook alone."""

from tests.support.commit_traces import concurrent
from tests.support.hook_trace import HookTrace
from tests.support.incident_rows import evidence, transitions_of


def stalled(until: int, **heartbeat: object) -> HookTrace:
    trace = concurrent().commits(5, "a", 0, 90)
    for at in range(20, until, 20):
        trace.passes(at)
        if heartbeat.get("alive", True):
            trace.heart_beat(at, "a", "b").commits(at, "a", 0, 90)
    return trace


def test_a_concurrent_queue_stalls_30_s_later_than_an_ordered_one_is_stuck():
    trace = stalled(100).passes(95)
    assert trace.incidents("QUEUE_STALLED") == []
    trace.passes(96).commits(100, "a", 0, 91)
    assert transitions_of(trace, "QUEUE_STALLED") == [
        (95.001, "OPENED", "QUEUE_STALLED LISTENER_BLOCKED"),
        (100, "RESOLVED", "QUEUE_STALLED LISTENER_BLOCKED"),
    ]
    assert evidence(trace, "QUEUE_STALLED")[0]["lag_at_least"] == 10


def test_an_unresponsive_owner_is_named():
    trace = stalled(100, alive=False).passes(96)
    assert transitions_of(trace, "QUEUE_STALLED") == [(95.001, "OPENED", "QUEUE_STALLED OWNER_UNRESPONSIVE")]
