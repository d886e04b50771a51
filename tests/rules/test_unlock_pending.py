"""UNLOCK_PENDING: a client that has lost an ordered queue fails to unlock it again and again."""

from tests.support.incident_rows import evidence, rows
from tests.support.trace import Held, Member, Trace, holding

MINE = "UNLOCK_PENDING"
OFFSETS = dict.fromkeys(range(4), (100, 100))


def keeping(attempts: list[int]) -> Trace:
    """a has lost queue 1 to b at 20, keeps it as dropped, and has tried to unlock it so often at each answer."""
    trace = Trace().poll(0, {"a": holding(0, 1, 2, 3)}, OFFSETS).poll(10, {"a": holding(0, 1, 2, 3)}, OFFSETS)
    for number, tried in enumerate(attempts):
        kept = Held(1, dropped=True, unlock_attempts=tried, in_listener=1)
        a = Member((*holding(0).holds, kept))
        trace.poll(20 + 10 * number, {"a": a, "b": holding(2, 3)}, OFFSETS)
    return trace


def test_a_client_whose_attempts_grow():
    trace = keeping([1, 2])
    assert trace.incidents(MINE) == [(30, "OPENED", MINE)]
    assert (rows(trace, MINE)[0].severity, rows(trace, MINE)[0].client_id) == ("warning", "a")
    found = evidence(trace, MINE)[0]
    assert (found["kept_by"], found["unlock_attempts"], found["in_listener"]) == ("a", 2, 1)


def test_it_ends_when_the_client_gives_the_queue_up():
    trace = keeping([1, 2]).poll(40, {"a": holding(0), "b": holding(1, 2, 3)}, OFFSETS)
    assert trace.incidents(MINE)[-1] == (40, "RESOLVED", MINE)


def test_one_attempt_is_a_near_miss():
    assert keeping([1, 1, 1]).incidents(MINE) == []


def test_a_dropped_queue_that_was_not_tried_is_about_to_be_unlocked():
    assert keeping([0, 0]).incidents(MINE) == []
