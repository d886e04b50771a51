"""BROKER_LOCKS_LOST: a broker that restarts has no locks."""

import pytest

from tests.support.hook_trace import HookTrace
from tests.support.incident_rows import distinct_transitions, evidence


def restarted() -> HookTrace:
    return HookTrace().boots(0).heart_beat(1, "a", "b").locks(2, "a", 0, 1).locks(2, "b", 2, 3).boots(20)


def test_a_restart_loses_the_locks_until_their_owners_have_them_again():
    trace = restarted().heart_beat(21, "a", "b").locks(22, "a", 0, 1).locks(22, "b", 3)
    assert distinct_transitions(trace) == [(20, "OPENED", "BROKER_LOCKS_LOST")]
    assert evidence(trace, "BROKER_LOCKS_LOST")[0]["locks_missing"] == 4
    trace.locks(24, "b", 2)
    trace.heart_beat(50, "a", "b").heart_beat(80, "a", "b").passes(84)
    assert distinct_transitions(trace, "BROKER_LOCKS_LOST")[1:] == [(84, "RESOLVED", "BROKER_LOCKS_LOST")]


@pytest.mark.parametrize(
    ("how", "ends"),
    [
        (lambda t: t.passes(40), 32.001),  # the former owner believes in its lock for 30 s from its renewal at 2
        (lambda t: t.locks(26, "a", 0, granted=()), 26),  # refused, it knows better
        (lambda t: t.unlocks(26, "a", 0), 26),
        (lambda t: t.leaves(26, "a"), 26),
    ],
)
def test_another_client_that_takes_a_lost_lock_makes_two_owners(how, ends):
    trace = restarted().heart_beat(21, "a", "b").locks(22, "b", 2, 3).locks(23, "a", 1).locks(25, "b", 0)
    how(trace)
    for at in (40, 60, 80, 100):
        trace.heart_beat(at, "b").locks(at, "b", 2, 3)
    assert distinct_transitions(trace, "BROKER_LOCKS_LOST") == [
        (20, "OPENED", "BROKER_LOCKS_LOST"),
        (25, "ESCALATED", "BROKER_LOCKS_LOST TWO_OWNERS"),
        (ends + 60, "RESOLVED", "BROKER_LOCKS_LOST TWO_OWNERS"),
    ]
    assert evidence(trace, "BROKER_LOCKS_LOST")[1]["first_taker"] == "b"


def test_a_lost_lock_that_no_client_requests_stays_lost():
    trace = restarted().heart_beat(21, "a", "b").locks(22, "a", 0).locks(22, "b", 2, 3).passes(53)
    trace.heart_beat(53, "a", "b").locks(53, "b", 2, 3).passes(90)
    assert distinct_transitions(trace, "BROKER_LOCKS_LOST") == [(20, "OPENED", "BROKER_LOCKS_LOST")]


def test_a_restart_loses_nothing_of_a_group_that_locks_nothing():
    trace = HookTrace().boots(0).heart_beat(1, "a").asks(2, "a", 0).boots(20).heart_beat(21, "a").locks(22, "a")
    assert trace.incidents() == []
