"""ZOMBIE_QUEUE and UNLOCK_PENDING: queues that a client has dropped and still keeps."""

from tests.support.rounds import FOUR, MINE, evidence, rounds
from tests.support.trace import SILENT, Held, Member, Trace, holding


def dropped(attempts: int = 0) -> Member:
    return Member((Held(0), Held(1, dropped=True, unlock_attempts=attempts)))


def test_issue_1918_a_queue_kept_as_dropped_by_its_expected_owner():
    """Dropped since the answer at 20: at 40 it is 20 s, at 50 more."""
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 80, {"a": dropped(), "b": holding(2, 3)})
    rounds(trace, 80, 100, FOUR)
    assert trace.incidents(*MINE) == [(50, "OPENED", "ZOMBIE_QUEUE"), (80, "RESOLVED", "ZOMBIE_QUEUE")]
    found = evidence(trace, "ZOMBIE_QUEUE")
    assert (found["kept_by"], found["dropped_ms"], found["limit_ms"]) == ("a", 30_000, 20_000)


def test_a_queue_that_is_dropped_for_a_moment_is_a_near_miss():
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 50, {"a": dropped(), "b": holding(2, 3)})
    rounds(trace, 50, 80, FOUR)
    assert trace.incidents(*MINE) == []


def test_a_zombie_of_a_silent_client_is_unknown_and_ends_with_it():
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 60, {"a": dropped(), "b": holding(2, 3)})
    rounds(trace, 60, 100, {"a": SILENT, "b": holding(2, 3)})
    assert trace.incidents("ZOMBIE_QUEUE") == [(50, "OPENED", "ZOMBIE_QUEUE")]
    rounds(trace, 100, 110, {"b": holding(1, 2, 3)})
    assert trace.incidents("ZOMBIE_QUEUE")[-1] == (100, "RESOLVED", "ZOMBIE_QUEUE")


def test_growing_unlock_attempts_are_reported_at_the_first_growth():
    """b came at 20 and is to have queue 1; a's listener still works on it, and each rebalance tries in vain."""
    trace = rounds(Trace(), 0, 20, {"a": holding(0, 1)})
    trace.poll(20, {"a": dropped(1), "b": holding()}, route=2)
    assert trace.incidents(*MINE) == []
    trace.poll(30, {"a": dropped(2), "b": holding()})
    trace.poll(40, {"a": dropped(3), "b": holding()})
    trace.poll(50, {"a": holding(0), "b": holding(1)})
    assert trace.incidents("UNLOCK_PENDING", "ZOMBIE_QUEUE") == [
        (30, "OPENED", "UNLOCK_PENDING"),
        (50, "RESOLVED", "UNLOCK_PENDING"),
    ]
    assert evidence(trace, "UNLOCK_PENDING")["unlock_attempts"] == 2


def test_one_attempt_to_unlock_is_a_near_miss():
    trace = rounds(Trace(), 0, 20, {"a": holding(0, 1)})
    rounds(trace, 20, 50, {"a": dropped(1), "b": holding()})
    assert trace.incidents("UNLOCK_PENDING") == []
