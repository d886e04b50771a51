"""LOCK_EXPIRED: the owner of an ordered queue has not renewed its lock."""

from dataclasses import replace

import pytest

from tests.support.incident_rows import distinct_transitions, evidence, rows
from tests.support.lock_traces import ordered
from tests.support.trace import SILENT, Held, Member, Trace, holding

MINE = "LOCK_EXPIRED"
OFFSETS = dict.fromkeys(range(4), (100, 100))


def aged(lock_age: float, *, orderly: bool = True) -> Trace:
    """By polls: a's answers at 0 and 10 show fresh locks, that of 20 one of queue 1 of such an age."""
    fresh = replace(holding(0, 1, 2, 3), orderly=orderly)
    old = Member((Held(0), Held(1, lock_age=lock_age), Held(2), Held(3)), orderly=orderly)
    return Trace().poll(0, {"a": fresh}, OFFSETS).poll(10, {"a": fresh}, OFFSETS).poll(20, {"a": old}, OFFSETS)


def test_by_an_answer_a_lock_older_than_30_s_has_expired():
    trace = aged(31)
    assert trace.incidents(MINE) == [(20, "OPENED", MINE)]
    assert (rows(trace, MINE)[0].severity, rows(trace, MINE)[0].client_id) == ("warning", "a")
    found = evidence(trace, MINE)[0]
    assert (found["owner"], found["limit_ms"], found["broker_limit_ms"]) == ("a", 30_000, 60_000)
    assert found["lock_age_ms"] >= 31_000


def test_it_ends_with_a_renewal():
    trace = aged(31).poll(30, {"a": holding(0, 1, 2, 3)}, OFFSETS)
    assert trace.incidents(MINE)[-1] == (30, "RESOLVED", MINE)


def test_past_the_brokers_limit_any_member_may_take_it():
    assert rows(aged(61), MINE)[0].severity == "critical"


@pytest.mark.parametrize("lock_age", [5, 30])
def test_a_younger_lock_is_a_near_miss(lock_age):
    assert aged(lock_age).incidents(MINE) == []


def test_a_concurrent_queue_has_no_lock():
    assert aged(90, orderly=False).incidents(MINE) == []


def test_the_lock_of_a_silent_client_expires_without_an_answer():
    trace = Trace().poll(0, {"a": holding(0, 1, 2, 3)}, OFFSETS)
    for at in range(10, 70, 10):
        trace.poll(at, {"a": SILENT}, OFFSETS)
    [(at, transition, _)] = [one for one in trace.incidents(MINE) if one[1] == "OPENED"][:1]
    assert transition == "OPENED"
    assert 25 <= at <= 41


def test_by_the_hook_it_expires_30_s_after_the_last_renewal():
    """Locks are renewed at 1 by both, and by b alone afterwards."""
    trace = ordered()
    for at in (20, 40):
        trace.heart_beat(at, "a", "b").locks(at, "b", 2, 3)
    opened = [one for one in distinct_transitions(trace.passes(50), MINE) if one[1] == "OPENED"]
    assert [what for _, _, what in opened] == [MINE]
    assert 30 <= opened[0][0] <= 35
    assert {row.client_id for row in rows(trace, MINE)} == {"a"}
