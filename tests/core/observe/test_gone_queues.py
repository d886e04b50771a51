"""A queue that is gone is forgotten, so that a group that lives for years does not grow."""

from rebalance_model.observe.effects import QueueSnapshot
from rebalance_model.observe.policy import Policy
from tests.support.trace import START, Trace, holding

MINUTE = 60
POLICY = Policy(group_memory=30 * MINUTE * 1000)


def run(trace: Trace, begin: int, minutes: int, *queue_ids: int) -> int:
    """Poll each ten seconds a group whose member holds these queues, all of the route; return the end, seconds."""
    end = begin + minutes * MINUTE
    for at in range(begin, end, 10):
        trace.poll(at, {"a": holding(*queue_ids)}, dict.fromkeys(queue_ids, (5, 5)), route=len(queue_ids))
    return end


def shown(trace: Trace, since: int) -> set[int]:
    return {
        row.queue_id for row in trace.effects if isinstance(row, QueueSnapshot) and row.time >= START + since * 1000
    }


def test_a_queue_that_its_topic_has_lost_is_forgotten_after_a_while_and_may_come_back():
    trace = Trace(POLICY)
    shrunk = run(trace, 0, 3, 0, 1, 2, 3)
    end = run(trace, shrunk, 25, 0, 1)
    assert shown(trace, end - 6 * MINUTE) == {0, 1, 2, 3}
    end = run(trace, end, 15, 0, 1)
    assert shown(trace, end - 6 * MINUTE) == {0, 1}
    assert len(trace.state.queues) == 2

    end = run(trace, end, 6, 0, 1, 2)
    assert shown(trace, end - 6 * MINUTE) == {0, 1, 2}
    assert trace.owners() == {0: "a", 1: "a", 2: "a"}
    assert not [row for row in trace.incidents() if row[1] == "OPENED"]
