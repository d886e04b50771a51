"""The client's side of the broker's locks."""

from rebalance_model.dialect import RELEASE_4_9
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client import queue_locks
from tests.core.client.harness import Q0, Q1, journal, owner, run
from tests.differential.client_world import DOWN, REFUSED


def locked(made):
    return {mq.queue_id: (pq.locked, pq.last_lock_timestamp) for mq, pq in made.consumer.process_queue_table.items()}


def test_renewal_marks_granted_and_refused_and_no_answer_changes_nothing():
    made = owner(orderly=True)
    start = made.host.time
    made.host.time += 5
    made.order("granted", "a", [1])
    made.lock_all()
    assert locked(made) == {0: (False, start), 1: (True, start + 5)}
    made.host.time += 5
    made.order("granted", "a", DOWN)
    made.lock_all()
    assert locked(made) == {0: (False, start), 1: (True, start + 5)}


def test_dropped_queues_are_renewed_by_4_9_only():
    for dialect, names in (({}, ["T/a/1"]), ({"dialect": RELEASE_4_9}, ["T/a/0", "T/a/1"])):
        made = owner(**dialect, orderly=True)
        made.consumer.process_queue_table[MessageQueue(*Q0)].dropped = True
        made.lock_all()
        assert journal(made) == [["lock", *names]]


def test_a_queue_dropped_during_the_request_is_skipped():
    made = owner(orderly=True)
    lock = made.world.lock

    def gone(*args):
        made.consumer.process_queue_table.pop(MessageQueue(*Q0), None)
        return lock(*args)

    made.world.lock = gone
    made.host.time += 5
    made.lock_all()
    assert locked(made) == {1: (True, made.host.time)}


def test_at_the_end_all_are_unlocked_where_the_broker_answers():
    made = owner(orderly=True)
    made.order("unlocked", "a", REFUSED)
    made.unlock_all()
    assert [each for each, _ in locked(made).values()] == [True, True]
    made.order("unlocked", "a", "ok")
    unlock = made.world.unlock

    def gone(*args):
        made.consumer.process_queue_table.pop(MessageQueue(*Q0), None)
        return unlock(*args)

    made.world.unlock = gone
    made.unlock_all()
    assert [each for each, _ in locked(made).values()] == [False]


def test_one_lock_marks_its_queue_and_no_other():
    made = owner(orderly=True)
    start = made.host.time
    made.host.time += 5
    assert run(queue_locks.lock(made.consumer, MessageQueue(*Q1)))
    assert locked(made) == {0: (True, start), 1: (True, start + 5)}
    made.order("granted", "a", [])
    assert not run(queue_locks.lock(made.consumer, MessageQueue(*Q1)))
    assert locked(made)[1] == (True, start + 5)
