"""A queue that is gone is forgotten, so that a group that lives for years does not grow."""

from rebalance_model.observe.effects import IncidentTransition, QueueSnapshot
from rebalance_model.observe.events import Tick, UpdateConsumerOffset
from rebalance_model.observe.policy import Policy
from tests.support.folding import Fold
from tests.support.trace import START, Trace, holding

MINUTE = 60
POLICY = Policy(group_memory=30 * MINUTE * 1000)


def run(trace: Trace, begin: int, minutes: int, *queue_ids: int) -> int:
    """Poll each ten seconds a group whose member holds these queues, all of the route; return the end, seconds."""
    end = begin + minutes * MINUTE
    for at in range(begin, end, 10):
        trace.poll(at, {"a": holding(*queue_ids)}, dict.fromkeys(queue_ids, (5, 5)), route=len(queue_ids))
    return end


def queues_shown(trace: Trace, since: int) -> set[int]:
    return {
        row.queue_id for row in trace.effects if isinstance(row, QueueSnapshot) and row.time >= START + since * 1000
    }


def test_a_queue_that_its_topic_lost_is_forgotten_and_may_come_back():
    trace = Trace(POLICY)
    shrunk = run(trace, 0, 3, 0, 1, 2, 3)
    end = run(trace, shrunk, 25, 0, 1)
    assert queues_shown(trace, end - 6 * MINUTE) == {0, 1, 2, 3}
    end = run(trace, end, 15, 0, 1)
    assert queues_shown(trace, end - 6 * MINUTE) == {0, 1}
    assert len(trace.state.queues) == 2

    end = run(trace, end, 6, 0, 1, 2)
    assert queues_shown(trace, end - 6 * MINUTE) == {0, 1, 2}
    assert trace.owners() == {0: "a", 1: "a", 2: "a"}
    assert not [row for row in trace.incidents() if row[1] == "OPENED"]


def test_a_queue_with_an_open_incident_is_kept():
    """By a hook alone it is unknown whether its topic still has it."""
    fold, rows = Fold(Policy(group_memory=10 * MINUTE * 1000)), []
    common = {"cluster": "c", "broker": "b", "source": "hook", "source_id": "hook-b@1"}
    for minute in range(30):
        time, queue_id = START + minute * MINUTE * 1000, 0 if minute else 7
        where = {"group": "g", "channel": "1.1.1.1:1", "topic": "T", "queue_id": queue_id}
        rows += fold.push(UpdateConsumerOffset(time=time, offset=minute, seq=minute + 1, **where, **common))
        for second in range(0, MINUTE, 5):
            rows += fold.push(Tick(time=time + second * 1000, seq=minute * MINUTE + second + 1, **common))
    opened = {row.queue_id for row in rows if isinstance(row, IncidentTransition) and row.transition == "OPENED"}
    late = {row.queue_id for row in rows if isinstance(row, QueueSnapshot) and row.time > START + 25 * MINUTE * 1000}
    assert opened == {7}
    assert late == {0, 7}
