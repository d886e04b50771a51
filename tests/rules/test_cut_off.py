"""A client that is cut off from one broker still owns that broker's queues, without their locks."""

from rebalance_model.observe.effects import AssignmentChange
from tests.support.hook_trace import HookTrace
from tests.support.trace import holding


def test_a_queue_whose_process_queue_has_no_lock_is_not_unassigned():
    both = {"a": holding(0, 1), "b": holding(2, 3)}
    trace = HookTrace().boots(0).heart_beat(1, "a", "b").locks(2, "a", 0, 1).locks(2, "b", 2, 3).poll(10, both)
    trace.unlocks(12, "a", 0, 1)
    without = {"a": holding(0, 1, locked=False), "b": holding(2, 3)}
    for at in range(20, 260, 20):
        trace.heart_beat(at, "a", "b").locks(at, "b", 2, 3).poll(at + 1, without, dict.fromkeys(range(4), (at, 0)))
    assert trace.owners() == {0: None, 1: None, 2: "b", 3: "b"}
    assert any(isinstance(one, AssignmentChange) and one.action == "RELEASED" for one in trace.effects)
    assert trace.incidents("QUEUE_UNASSIGNED") == []
