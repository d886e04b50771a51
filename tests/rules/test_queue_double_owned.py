"""QUEUE_DOUBLE_OWNED by the clients' answers, and by the pulls that the broker's hook reports."""

import pytest

from rebalance_model.observe.effects import IncidentTransition
from tests.support.hook_trace import HookTrace
from tests.support.rounds import FOUR, concurrent, evidence, rounds
from tests.support.trace import SILENT, START, Held, Member, Trace, holding

# QUEUE_DOUBLE_OWNED


def test_issue_2837_two_owners_show_in_two_answers_of_both():
    """Both hold queue 1 from 20 on. Once may be a hand-over between the two questions; twice is not."""
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    rounds(trace, 20, 60, {"a": concurrent(0, 1), "b": concurrent(1, 2, 3)})
    rounds(trace, 60, 110, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == [
        (30, "OPENED", "QUEUE_DOUBLE_OWNED"),
        (80, "RESOLVED", "QUEUE_DOUBLE_OWNED"),  # 20 s after it was first single again
    ]
    found = evidence(trace, "QUEUE_DOUBLE_OWNED")
    assert (found["owner"], found["rival"], found["expected_owner"]) == ("a", "b", "a")


def test_a_hand_over_between_two_requests_is_a_near_miss():
    """At 20 a was asked before it gave queue 1 up, and b after it took it."""
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    trace.poll(20, {"a": concurrent(0, 1), "b": concurrent(1, 2, 3)})
    rounds(trace, 30, 60, {"a": concurrent(0), "b": concurrent(1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == []


def test_a_thawed_client_may_show_its_former_queues_once():
    """a is frozen after 10 and dropped by the broker; b has its queues. Thawed at 150 it shows them in one answer, and
    its own rebalance gives them up.
    """
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    rounds(trace, 20, 60, {"a": SILENT, "b": concurrent(2, 3)})
    rounds(trace, 60, 150, {"a": SILENT, "b": concurrent(0, 1, 2, 3)})
    trace.poll(150, {"a": concurrent(0, 1), "b": concurrent(0, 1, 2, 3)})
    rounds(trace, 160, 200, {"a": concurrent(), "b": concurrent(0, 1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == []


def test_a_thawed_client_that_keeps_its_queues_makes_two_owners():
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    rounds(trace, 20, 60, {"a": SILENT, "b": concurrent(2, 3)})
    rounds(trace, 60, 150, {"a": SILENT, "b": concurrent(0, 1, 2, 3)})
    rounds(trace, 150, 180, {"a": concurrent(0, 1), "b": concurrent(0, 1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == [(160, "OPENED", "QUEUE_DOUBLE_OWNED")] * 2


def test_two_clients_with_valid_locks_of_a_queue_are_two_owners():
    """After a broker's restart without its locks another client took queue 1, and a believes in its own for 30 s."""
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 50, {"a": holding(0, 1), "b": holding(1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == [(30, "OPENED", "QUEUE_DOUBLE_OWNED")]


@pytest.mark.parametrize(
    "mine",
    [
        Held(1, locked=False),  # it was refused the lock, and does not consume
        Held(1, lock_age=31),  # it refuses to consume by itself
        Held(1, dropped=True, unlock_attempts=1),  # it gives it up
    ],
)
def test_an_ordered_queue_has_no_second_owner_without_a_valid_lock(mine):
    trace = rounds(Trace(), 0, 20, {"a": holding(0, 1), "b": holding(2, 3)})
    rounds(trace, 20, 60, {"a": Member((Held(0), mine)), "b": holding(1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == []


def test_a_lock_granted_after_the_other_was_asked_proves_nothing():
    """b shows queue 1 at 25 without its lock, and at 35 with a new one; a, asked at 30, may have lost it since."""
    trace = rounds(Trace(), 0, 30, FOUR)
    without = Member((Held(1, locked=False), Held(2), Held(3)))
    trace._fold(trace._answer("b", without, START + 25_000))
    trace._fold(trace._answer("a", holding(0, 1), START + 30_000))
    trace._fold(trace._answer("b", holding(1, 2, 3, lock_age=0), START + 35_000))
    rounds(trace, 40, 70, {"a": holding(0), "b": holding(1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == []


def grown(last: int) -> Trace:
    """Orders has 8 queues instead of 4 from 20 on; a sees them at 20, and b, in its answers up to ``last``, has not."""
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    trace.poll(20, {"a": concurrent(0, 1, 2, 3), "b": concurrent(2, 3)}, route=8)
    rounds(trace, 30, last, {"a": concurrent(0, 1, 2, 3), "b": concurrent(2, 3)})
    return rounds(trace, last, last + 50, {"a": concurrent(0, 1, 2, 3), "b": concurrent(4, 5, 6, 7)})


def test_two_owners_while_a_topic_grows_are_not_reported():
    """The lab's half hour: one client worked with the new route, and the other, for 20 s more, with the former."""
    assert grown(50).incidents("QUEUE_DOUBLE_OWNED") == []


def test_a_client_that_misses_new_queues_for_a_minute_is_not_just_late():
    trace = grown(100)
    assert trace.incidents("QUEUE_DOUBLE_OWNED")[:2] == [(80.001, "OPENED", "QUEUE_DOUBLE_OWNED")] * 2
    opened = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.transition == "OPENED"]
    assert {e.severity for e in opened if e.code == "QUEUE_DOUBLE_OWNED"} == {"critical"}


def test_two_owners_in_a_topic_that_lost_queues_are_two_owners():
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    for at in (20, 30):
        trace.poll(at, {"a": concurrent(0, 1), "b": concurrent(1, 2)}, route=3)
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == [(30, "OPENED", "QUEUE_DOUBLE_OWNED")]


def test_the_incident_stays_open_while_an_owner_is_silent():
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    rounds(trace, 20, 40, {"a": concurrent(0, 1), "b": concurrent(1, 2, 3)})
    rounds(trace, 40, 100, {"a": SILENT, "b": concurrent(1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == [(30, "OPENED", "QUEUE_DOUBLE_OWNED")]
    rounds(trace, 100, 130, {"b": concurrent(1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED")[-1] == (120, "RESOLVED", "QUEUE_DOUBLE_OWNED")


# With the broker's hook beside the polls


def test_two_clients_that_alternately_pull_one_queue_are_two_owners():
    """b goes on with queue 0, though a has begun with it at 12: a rebalance that b did not follow. There is no poll, so
    the group lives by the broker's clock.
    """
    trace = HookTrace().boots(0).heart_beat(0, "a", "b")
    trace.asks(2, "b", 0).pulls(3, "b", 0).asks(12, "a", 0)
    for at in range(12, 60, 5):
        trace.pulls(at, "a", 0).pulls(at + 1, "b", 0)
    # both since 13: b's pull at 33 shows 19 s of both, the one at 38 shows 24
    opened = [(round(at, 3), what) for at, what, _ in trace.incidents("QUEUE_DOUBLE_OWNED")]
    assert opened == [(38, "OPENED")]
    assert evidence(trace, "QUEUE_DOUBLE_OWNED")["pulled_by"] == "b"
    trace.heart_beat(65, "a", "b").passes(80).heart_beat(95, "a", "b").passes(120)
    closed = [(round(at, 3), what) for at, what, _ in trace.incidents("QUEUE_DOUBLE_OWNED")][1:]
    assert closed == [(107.001, "RESOLVED")]  # a's last pull at 57 (b's at 58), 30 s of silence, and 20 s single


def test_the_former_owners_last_pulls_are_a_near_miss():
    trace = HookTrace().boots(0).heart_beat(0, "a", "b")
    trace.poll(1, {"a": concurrent(), "b": concurrent(0)})
    trace.asks(2, "b", 0).pulls(3, "b", 0).asks(12, "a", 0)
    for at in range(12, 30, 5):
        trace.pulls(at, "a", 0).pulls(at + 1, "b", 0)
    for at in range(30, 90, 5):
        trace.pulls(at, "a", 0).passes(at + 1)
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == []
