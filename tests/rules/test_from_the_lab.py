"""Scenarios from recordings of the lab (`tests/live/test_faults.py`): each was a false alarm, or missing."""

from rebalance_model.observe.effects import IncidentTransition
from tests.support.hook_trace import HookTrace
from tests.support.trace import Trace, holding


def test_a_leaving_client_has_not_stalled_the_rebalance_after_its_unlock():
    """Its hook tells the unlock 6 ms before the goodbye: until then it is a member, and should have what it gave up.

    Its locks were told before polls told the strategy, so no queue has moved since the strategy's answer was known.
    """
    trace = HookTrace().boots(0).poll(1, {}).heart_beat(2, "a").locks(3, "a", 0, 1, 2, 3)
    for at in range(10, 90, 10):
        trace.poll(at, {"a": holding(0, 1, 2, 3)}).locks(at + 1, "a", 0, 1, 2, 3).heart_beat(at + 2, "a")
    trace.tick(87)
    trace.unlocks(87.500, "a", 0, 1, 2, 3).leaves(87.506, "a")
    assert trace.incidents("REBALANCE_STALLED") == []


def test_locks_left_behind_by_a_storm_are_reported_with_it():
    """50 clients replaced all at once: 13 had got a lock while they were leaving. That is one alert, the storm's."""
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0, 1).locks(1, "b", 2, 3)
    for at in (10, 20, 30, 40):
        trace.locks(at, "a", 0, 1).locks(at, "b", 2, 3).heart_beat(at, "c").leaves(at + 5, "c")
    trace.locks(46, "a", 0, 1).lists(50, "b").locks(50, "b", 0, 2, 3, granted=(2, 3)).passes(56)
    opened = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.transition == "OPENED"]
    assert [(e.code, e.parent) for e in opened] == [
        ("REBALANCE_STORM", None),
        ("LOCK_ORPHANED", opened[0].incident_id),
    ]


def test_a_just_expected_owner_is_not_refused_by_a_vanished_holder():
    """Clients replaced one by one: b is gone at 20, but d, whose queue 3 is, has come just before 50."""
    trace = Trace()
    for at in (0, 10):
        trace.poll(at, {"a": holding(0, 1), "b": holding(2, 3)})
    for at in (20, 30):
        trace.poll(at, {"a": holding(0, 1)})
    trace.poll(40, {"a": holding(0, 1), "c": holding()})
    trace.poll(50, {"a": holding(0, 1), "c": holding(2), "d": holding()})
    assert trace.incidents("LOCK_ORPHANED") == []
