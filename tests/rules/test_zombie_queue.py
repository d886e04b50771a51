"""ZOMBIE_QUEUE: a client keeps a queue as dropped that has been assigned to it again."""

from tests.support.incident_rows import evidence, rows
from tests.support.trace import SILENT, Held, Member, Trace, holding

MINE = "ZOMBIE_QUEUE"
OFFSETS = dict.fromkeys(range(4), (100, 100))
KEPT = Member((*holding(0, 2, 3).holds, Held(1, dropped=True, in_listener=1)))


def keeping(until: int, begin: int = 10) -> Trace:
    """a is the only member, so every queue is to be its own; it keeps queue 1 as dropped."""
    trace = Trace().poll(0, {"a": holding(0, 1, 2, 3)}, OFFSETS)
    for at in range(begin, until, 10):
        trace.poll(at, {"a": KEPT}, OFFSETS)
    return trace


def test_a_client_that_keeps_its_queue_dropped_beyond_a_rebalance():
    """Dropped since the answer of 10; clients rebalance every 20 s."""
    trace = keeping(60)
    assert trace.incidents(MINE) == [(40, "OPENED", MINE)]
    assert (rows(trace, MINE)[0].severity, rows(trace, MINE)[0].client_id) == ("critical", "a")
    found = evidence(trace, MINE)[0]
    assert (found["dropped_ms"], found["limit_ms"], found["expected_owner"]) == (30_000, 20_000, "a")


def test_it_ends_when_the_client_has_the_queue_again():
    trace = keeping(60).poll(60, {"a": holding(0, 1, 2, 3)}, OFFSETS)
    assert trace.incidents(MINE)[-1] == (60, "RESOLVED", MINE)


def test_within_one_rebalance_it_is_a_near_miss():
    trace = keeping(40).poll(39, {"a": holding(0, 1, 2, 3)}, OFFSETS)
    assert trace.incidents(MINE) == []


def test_a_queue_that_another_client_should_have_is_no_zombie():
    trace = Trace().poll(0, {"a": holding(0, 1), "b": holding(2, 3)}, OFFSETS)
    for at in range(10, 90, 10):
        kept = Member((*holding(0, 1).holds, Held(2, dropped=True, in_listener=1)))
        trace.poll(at, {"a": kept, "b": holding(3)}, OFFSETS)
    assert trace.incidents(MINE) == []


def test_a_client_that_does_not_answer_may_have_released_it():
    trace = keeping(30)
    for at in range(30, 90, 10):
        trace.poll(at, {"a": SILENT}, OFFSETS)
    assert trace.incidents(MINE) == []
