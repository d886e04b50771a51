"""Giving a queue up: the wait for its listener, the force after 20 s, and 4.9's delayed unlock."""

from rebalance_model.dialect import RELEASE_4_9
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client.cached_messages import Message
from simulation.rocketmq.client.removal import remove_unnecessary_message_queue
from tests.core.client.harness import Q0, journal, owner, run

QUEUE = MessageQueue(*Q0)


def remove(made):
    return run(remove_unnecessary_message_queue(made.consumer, QUEUE, made.consumer.process_queue_table[QUEUE]))


def test_force_begins_after_20_s_and_only_for_dropped_queues():
    for dropped, age, removed in ((True, 20_000, False), (True, 20_001, True), (False, 20_001, False)):
        made = owner(orderly=True)
        process_queue = made.consumer.process_queue_table[QUEUE]
        made.busy(Q0, True)
        process_queue.dropped = dropped
        made.host.time = process_queue.last_lock_timestamp + age
        assert remove(made) is removed
        assert process_queue.try_unlock_times == (0 if removed else 1)
        assert process_queue.locked is not removed
        assert not process_queue.consume_lock.writing
        assert journal(made, "unlock") == ([["unlock", "T/a/0", True]] if removed else [])


def test_a_listener_that_ends_in_time_lets_the_queue_go():
    made = owner(orderly=True)
    made.busy(Q0, True)
    waited = []

    async def ends(lock, timeout):
        waited.append(timeout)
        lock.release_read()

    made.host.released = ends
    assert remove(made)
    assert waited == [500]
    assert not made.consumer.process_queue_table[QUEUE].consume_lock.writing


def test_the_offset_is_committed_before_and_after_the_wait():
    made = owner(orderly=True)
    made.progress(Q0, 5, increase_only=True)
    assert remove(made)
    assert [entry[0] for entry in journal(made)] == ["commit", "commit", "unlock"]
    made = owner(orderly=True)
    made.progress(Q0, 5, increase_only=True)
    made.busy(Q0, True)
    assert not remove(made)
    assert [entry[0] for entry in journal(made)] == ["commit"]
    assert made.consumer.offset_store.clone_offset_table(None) == {QUEUE: 5}


def test_4_9_unlocks_20_s_later_if_messages_are_cached():
    made = owner(RELEASE_4_9, orderly=True)
    process_queue = made.consumer.process_queue_table[QUEUE]
    process_queue.put_message([Message(1)])
    assert remove(made)
    assert not process_queue.consume_lock.writing
    assert journal(made) == [["later", "", 20_000]]
    made.run_task(0)
    assert journal(made) == [["unlock", "T/a/0", True]]


def test_4_9_forgets_the_offset_before_it_waits_and_never_forces():
    made = owner(RELEASE_4_9, orderly=True)
    process_queue = made.consumer.process_queue_table[QUEUE]
    process_queue.dropped = True
    made.host.time += 10**6
    made.progress(Q0, 5, increase_only=True)
    made.busy(Q0, True)
    waited = []

    async def in_vain(_, timeout):
        waited.append(timeout)

    made.host.released = in_vain
    assert not remove(made)
    assert not remove(made)
    assert (process_queue.try_unlock_times, waited) == (2, [1_000, 1_000])
    assert made.consumer.offset_store.clone_offset_table(None) == {}
    made.busy(Q0, False)
    journal(made)
    assert remove(made)
    assert journal(made) == [["unlock", "T/a/0", True]]
    assert not process_queue.consume_lock.writing
