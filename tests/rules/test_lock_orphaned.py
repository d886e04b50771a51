"""LOCK_ORPHANED: a lock of a client that has left (client killed; client-go #1080 never renewed)."""

import pytest

from tests.support.hook_trace import HookTrace
from tests.support.incident_rows import distinct_transitions, evidence
from tests.support.lock_traces import ordered
from tests.support.trace import Trace, holding


def killed() -> HookTrace:
    """As on a real cluster: SIGKILL of a at 265.0, its last renewal at 263.3."""
    trace = ordered(243).heart_beat(260, "a", "b").locks(263.3, "a", 0, 1).pulls(264, "a", 0, offset=9)
    trace.commits(264.5, "a", 0, 7).commits(264.5, "a", 1, 7)
    trace.lists(265, "b")
    for second in range(58):
        trace.passes(265 + second).locks(265 + second, "b", 0, 1, granted=())
        if second % 20 == 0:
            trace.locks(265 + second, "b", 2, 3)
    return trace


def test_the_lock_of_a_killed_consumer_is_orphaned_5_s_after_a_refusal():
    trace = killed().locks(323.4, "b", 0, 1)
    assert distinct_transitions(trace, "LOCK_ORPHANED") == [
        (270, "OPENED", "LOCK_ORPHANED"),
        (295.001, "ESCALATED", "LOCK_ORPHANED"),  # queue 0 has messages that wait; of queue 1 that is not known
        (323.301, "RESOLVED", "LOCK_ORPHANED"),  # the lock has run out: whoever asks next has it
    ]
    assert [name for _, what, name in trace.incidents() if what == "ESCALATED"] == ["LOCK_ORPHANED"]
    first = evidence(trace, "LOCK_ORPHANED")[0]
    assert (first["holder"], first["lock_age_ms"], first["asked_by"]) == ("a", 6_700, "b")


def test_a_killed_owner_is_not_also_reported_as_a_stuck_queue():
    """The commit stood 59.6 s: from 264.5 to 324.1."""
    trace = killed().locks(323.4, "b", 0, 1).pulls(323.9, "b", 0, offset=7).commits(324.1, "b", 0, 9)
    assert trace.incidents("ORDERED_QUEUE_STUCK") == []


def test_clients_that_are_shut_down_together_leave_no_orphans():
    """The lab's rollout: a leaves with a lock that it was granted meanwhile; b, that is refused it, leaves as well."""
    trace = ordered().leaves(20, "a").locks(20.2, "b", 0, granted=()).locks(21.2, "b", 0, granted=())
    trace.leaves(21.5, "b").passes(30)
    assert distinct_transitions(trace, "LOCK_ORPHANED") == []


def test_a_lock_kept_by_an_unregistered_client_is_orphaned_after_5_s():
    trace = ordered().leaves(20, "a")
    for second in range(7):
        trace.locks(20.2 + second, "b", 0, granted=()).passes(20.5 + second)
    trace.locks(27.2, "b", 0)
    assert distinct_transitions(trace, "LOCK_ORPHANED") == [
        (25.2, "OPENED", "LOCK_ORPHANED"),
        (27.2, "RESOLVED", "LOCK_ORPHANED"),
    ]


def test_an_orphaned_lock_that_no_client_requests_is_clear():
    trace = ordered().lists(20, "b").locks(20, "b", 0, granted=()).passes(29).lists(30, code=1)
    assert distinct_transitions(trace, "LOCK_ORPHANED") == [
        (25, "OPENED", "LOCK_ORPHANED"),
        (30, "RESOLVED", "LOCK_ORPHANED"),
    ]


def test_a_client_that_reconnects_leaves_no_orphaned_lock():
    """The broker notifies the next owners at once; they are refused. Its next call, up to 3 s later, registers it."""
    trace = ordered().lists(20, "b").locks(20, "b", 0, granted=()).locks(21, "b", 0, granted=()).passes(22)
    trace.heart_beat(22.9, "a", number=1).passes(60)
    assert distinct_transitions(trace, "LOCK_ORPHANED") == []


def test_a_client_that_only_pulls_reconnects_just_after_3_s():
    """Its pull is repeated 3 s after the connection broke; then it connects and sends a heartbeat."""
    trace = ordered().lists(20, "b")
    for second in range(4):
        trace.locks(20 + second, "b", 0, granted=())
    trace.passes(24).heart_beat(24.1, "a", number=1).passes(60)
    assert distinct_transitions(trace, "LOCK_ORPHANED") == []


def test_refusals_before_the_holder_left_do_not_count():
    """The lab's start under load: b is refused in favor of a, which has yet to rebalance and loses its connection."""
    trace = ordered()
    for second in range(10):
        trace.locks(10 + second, "b", 0, granted=())
    trace.lists(20, "b").locks(20, "b", 0, granted=()).locks(21, "b", 0, granted=()).passes(22)
    trace.heart_beat(22.1, "a", number=1).unlocks(22.2, "a", 0).locks(22.3, "b", 0).passes(60)
    assert distinct_transitions(trace, "LOCK_ORPHANED") == []


def test_a_refusal_in_favor_of_a_live_member_is_no_orphan():
    """Start-up: every queue is asked for by two, refused once or twice, settled within 3 s."""
    trace = ordered().locks(1.5, "b", 0, 1, granted=()).locks(2.5, "b", 0, 1, granted=())
    trace.unlocks(3, "a", 0, 1).locks(3.5, "b", 0, 1)
    assert trace.incidents() == []


def test_a_refusal_is_not_judged_while_the_hook_is_silent():
    trace = ordered().lists(20, "b")
    trace.poll(20, {"b": holding(2, 3)})
    for at in (30, 40, 50):
        trace.poll(at, {"b": holding(0, 1, 2, 3)})
    assert trace.incidents("LOCK_ORPHANED") == []


def polled_kill(*, heir_takes_at: float) -> Trace:
    """a, which had 0 and 1 with locks 5 s old at 20, is gone at 30."""
    trace = Trace()
    for at in (0, 10, 20):
        trace.poll(at, {"a": holding(0, 1), "b": holding(2, 3)})
    for at in range(30, 100, 10):
        trace.poll(at, {"b": holding(0, 1, 2, 3) if at >= heir_takes_at else holding(2, 3)})
    return trace


@pytest.mark.parametrize(
    ("heir_takes_at", "expected"),
    [
        # past the heir's own timer of 20 s it would have the queue, if it were given it: at 60, not at 50
        (70, [(60, "OPENED"), (70, "RESOLVED")]),
        # no client takes it, and the lock, seen renewed at 15, may have been again until 30: at 90 it is surely free
        (999, [(60, "OPENED"), (90, "RESOLVED")]),
        # a clean leave whose notification is lost: the heir finds out by its timer
        (50, []),
        (30, []),
    ],
)
def test_polls_alone_infer_an_orphaned_lock(heir_takes_at, expected):
    trace = polled_kill(heir_takes_at=heir_takes_at)
    found = trace.incidents("LOCK_ORPHANED")
    assert list(dict.fromkeys(found)) == [(at, what, "LOCK_ORPHANED INFERRED") for at, what in expected]


@pytest.mark.parametrize("hook_from", [30, 50, 60])
def test_a_hook_that_starts_late_does_not_end_what_polls_infer(hook_from):
    """It has not seen the lock that a vanished client was granted before."""
    trace = HookTrace()
    for at in (0, 10, 20):
        trace.poll(at, {"a": holding(0, 1), "b": holding(2, 3)})
    for at in range(30, 100, 10):
        trace.poll(at, {"b": holding(2, 3)})
        if at >= hook_from:
            got = (0, 1, 2, 3) if at >= 80 else (2, 3)
            trace.heart_beat(at + 1, "b").locks(at + 2, "b", 0, 1, 2, 3, granted=got)
    found = trace.incidents("LOCK_ORPHANED")
    assert list(dict.fromkeys(found)) == [
        (at, what, "LOCK_ORPHANED INFERRED") for at, what in ((60, "OPENED"), (82, "RESOLVED"))
    ]
