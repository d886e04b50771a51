"""Rows that recordings of the lab (`tests/live/test_faults.py`) added: each was a false alarm there, or missing."""

from tests.scenarios.hook_trace import HookTrace
from tests.scenarios.trace import holding


def test_a_client_that_leaves_has_not_stalled_the_rebalance_between_its_unlock_and_its_goodbye():
    """Its hook tells the unlock 6 ms before the goodbye: until then it is a member, and should have what it gave up.

    Its locks were told before polls told the strategy, so no queue has moved since the strategy's answer was known.
    """
    trace = HookTrace().boots(0).poll(1, {}).heart_beat(2, "a").locks(3, "a", 0, 1, 2, 3)
    for at in range(10, 90, 10):
        trace.poll(at, {"a": holding(0, 1, 2, 3)}).locks(at + 1, "a", 0, 1, 2, 3).heart_beat(at + 2, "a")
    trace.tick(87)
    trace.unlocks(87.500, "a", 0, 1, 2, 3).leaves(87.506, "a")
    assert trace.incidents("REBALANCE_STALLED") == []
