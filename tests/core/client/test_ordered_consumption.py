"""Consuming in order: the three locks, the timers where one is missing, and what each answer of the listener does."""

import pytest

from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client.cached_messages import Message
from simulation.rocketmq.client.ordered_consumption import OrderlyStatus
from tests.core.client.harness import Q0, client, journal, owner, run
from tests.differential.client_world import REFUSED

QUEUE = MessageQueue(*Q0)
SUSPEND = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


def loaded(*offsets, listener=(), **config):
    """A consumer with cached messages and the listener's answers."""
    made = owner(**{"orderly": True, **config})
    made.put(Q0, list(offsets), 10)
    made.order("listener", None, [answer if isinstance(answer, dict) else {"status": answer} for answer in listener])
    return made


def queue_of(made):
    return made.consumer.process_queue_table[QUEUE]


def consume(made):
    run(made.service.consume(queue_of(made), QUEUE))
    return journal(made)


def memory(made):
    return made.read(Q0, "READ_FROM_MEMORY")


def test_consuming_starts_only_if_no_thread_consumes_the_queue():
    made = loaded(1)
    made.service.submit_consume_request([], queue_of(made), QUEUE, dispatch=False)
    assert journal(made) == []
    made.service.submit_consume_request([], queue_of(made), QUEUE, dispatch=True)
    assert journal(made) == [["later", "", 0]]
    made.run_task(0)
    assert journal(made) == [["consume", "T/a/0", [1]]]


def test_messages_come_one_after_the_other_until_none_is_left():
    made = loaded(1, 2, 3, consume_message_batch_max_size=2)
    assert consume(made) == [["consume", "T/a/0", [1, 2]], ["consume", "T/a/0", [3]]]
    assert (memory(made), queue_of(made).consuming, queue_of(made).msg_count) == (4, False, 0)
    assert queue_of(made).consume_lock.readers == 0


@pytest.mark.parametrize("missing", ["locked", "fresh"])
def test_without_a_valid_lock_it_requests_one(missing):
    made = loaded(1)
    if missing == "locked":
        queue_of(made).locked = False
    else:
        made.host.time += 30_001
    assert consume(made) == [["later", "", 100]]
    made.order("granted", "a", REFUSED)
    made.run_task(0)
    assert journal(made) == [["lock", "T/a/0"], ["later", "", 3000]]
    made.order("granted", "a", "all")
    made.run_task(0)
    assert journal(made) == [["later", "", 100]]
    made.run_task(0)
    assert journal(made) == [["lock", "T/a/0"], ["later", "", 10]]
    made.run_task(0)
    assert journal(made) == [["consume", "T/a/0", [1]]]


def test_a_broadcasting_consumer_needs_no_lock():
    made = loaded(1, message_model="BROADCASTING")
    queue_of(made).locked = False
    made.host.time += 30_001
    assert consume(made) == [["consume", "T/a/0", [1]]]


def test_a_lost_lock_stops_consuming_before_the_next_message():
    for loss in ({"unlock": True}, {"expire": True}):
        made = loaded(1, 2, listener=[{"status": "SUCCESS", **loss}])
        assert consume(made) == [["consume", "T/a/0", [1]], ["later", "", 10]]


def test_a_busy_queue_gives_its_thread_up_after_a_minute():
    for elapsed, messages in ((60_000, 2), (60_001, 1)):
        made = loaded(1, 2, message_model="BROADCASTING")
        listen = made.world.listen

        def slow(*args, listen=listen, elapsed=elapsed, made=made):
            made.host.time += elapsed if args[1] == [1] else 0
            return listen(*args)

        made.world.listen = slow
        entries = consume(made)
        assert len([entry for entry in entries if entry[0] == "consume"]) == messages
        assert entries[-1] == (["later", "", 10] if messages == 1 else ["consume", "T/a/0", [2]])
        assert queue_of(made).last_consume_timestamp == made.host.time if messages == 2 else True
        made.run_task(0)
        assert journal(made) == ([["consume", "T/a/0", [2]]] if messages == 1 else [])


def test_a_dropped_queue_is_left_alone_and_its_offset_too():
    made = loaded(1, 2, listener=[{"status": "SUCCESS", "drop": True}])
    assert consume(made) == [["consume", "T/a/0", [1]]]
    assert (memory(made), queue_of(made).msg_count) == (-1, 1)
    assert consume(made) == []


def test_a_thread_that_waits_for_the_queue_or_its_lock_sees_it_dropped():
    made = loaded(1)
    consuming = queue_of(made)
    made.service.consume(consuming, QUEUE).close()
    consuming.consume_lock.try_write()

    async def dropped_meanwhile(lock, timeout):
        assert timeout is None
        consuming.dropped = True
        lock.release_write()

    made.host.released = dropped_meanwhile
    assert consume(made) == []
    assert [message.queue_offset for message in consuming.consuming_msg_orderly_tree_map] == [1]
    assert consuming.consume_lock.readers == 0


def test_two_threads_never_consume_one_queue():
    made = loaded(1, 2)
    inner = []

    async def waits(lock, timeout):
        assert timeout is None
        inner.append(lock)
        lock.release_write()

    made.host.released = waits
    listen = made.world.listen

    def another_comes(*args):
        if not inner:
            run(made.service.consume(queue_of(made), QUEUE))
        return listen(*args)

    made.world.listen = another_comes
    run(made.service.consume(queue_of(made), QUEUE))
    assert len(inner) == 1


def test_a_queue_dropped_before_its_lock_request_is_left_alone():
    made = loaded(1)
    made.service.consume(queue_of(made), QUEUE).close()
    queue_of(made).locked = False
    lock = made.service._message_queue_locks.setdefault(QUEUE, type(queue_of(made).consume_lock)())
    lock.try_write()

    async def dropped_meanwhile(lock, _):
        queue_of(made).dropped = True
        lock.release_write()

    made.host.released = dropped_meanwhile
    assert consume(made) == []
    assert not lock.writing


@pytest.mark.parametrize("status", [None, SUSPEND])
@pytest.mark.parametrize(("asked", "delay"), [(-1, 1000), (5, 10), (10, 10), (2000, 2000), (40_000, 30_000)])
def test_a_failure_holds_the_queue_back(status, asked, delay):
    made = loaded(1, 2, listener=[{"status": status, "suspend_current_queue_time_millis": asked}])
    assert consume(made) == [["consume", "T/a/0", [1]], ["later", "", delay]]
    queue = queue_of(made)
    assert [message.reconsume_times for message in queue.msg_tree_map] == [1, 0]
    assert (memory(made), queue.consuming) == (-1, True)
    assert not queue.consuming_msg_orderly_tree_map


@pytest.mark.parametrize("status", ["SUCCESS", "COMMIT", "ROLLBACK"])
def test_with_auto_commit_everything_else_is_success(status):
    made = loaded(1, listener=[status])
    consume(made)
    assert (memory(made), queue_of(made).msg_count) == (2, 0)


@pytest.mark.parametrize(
    ("answers", "offset", "waiting", "taken", "later"),
    [
        (["SUCCESS", "SUCCESS"], -1, [], [1, 2], 0),
        (["SUCCESS", "COMMIT"], 3, [], [], 0),
        (["SUCCESS", "ROLLBACK"], -1, [1, 2], [], 1),
        (["SUCCESS", SUSPEND], -1, [2], [1], 1),
        (["SUCCESS", None], -1, [2], [1], 1),
    ],
)
def test_without_auto_commit_the_listener_decides_when_to_commit(answers, offset, waiting, taken, later):
    made = loaded(1, 2, listener=[{"status": status, "auto_commit": False} for status in answers])
    entries = consume(made)
    queue = queue_of(made)
    assert memory(made) == offset
    assert [message.queue_offset for message in queue.msg_tree_map] == waiting
    assert [message.queue_offset for message in queue.consuming_msg_orderly_tree_map] == taken
    assert entries.count(["later", "", 1000]) == later


def test_a_message_whose_tries_are_used_up_goes_and_the_queue_goes_on():
    made = loaded(1, 2, listener=[SUSPEND, "SUCCESS"], max_reconsume_times=0)
    assert [entry[0] for entry in consume(made)] == ["consume", "retry topic", "consume"]
    assert memory(made) == 3
    made = loaded(1, 2, listener=[{"status": SUSPEND, "auto_commit": False}], max_reconsume_times=0)
    assert [entry[0] for entry in consume(made)] == ["consume", "retry topic", "consume"]
    assert [message.queue_offset for message in queue_of(made).consuming_msg_orderly_tree_map] == []
    assert memory(made) == 3


def test_a_message_that_could_not_be_sent_back_is_retried_here():
    made = loaded(1, listener=[SUSPEND], max_reconsume_times=0)
    made.order("send_back", None, REFUSED)
    assert [entry[0] for entry in consume(made)] == ["consume", "retry topic", "later"]
    assert [message.reconsume_times for message in queue_of(made).msg_tree_map] == [1]


def test_by_default_a_bad_message_stops_its_queue_for_good():
    made = loaded(1, listener=[SUSPEND] * 2)
    message = next(iter(queue_of(made).msg_tree_map))
    message.reconsume_times = 2**31 - 2
    assert [entry[0] for entry in consume(made)] == ["consume", "later"]
    assert [entry[0] for entry in consume(made)] == ["consume", "retry topic"]


def test_a_reset_while_the_listener_runs_ends_consuming_for_good():
    made = loaded(1, 2, listener=[{"status": "SUCCESS", "clear": True}])
    assert consume(made) == [["consume", "T/a/0", [1]]]
    assert queue_of(made).consuming
    assert not queue_of(made).put_message([Message(5)])
    assert consume(made) == [["consume", "T/a/0", [5]]]  # the client's own lock of the queue is free again


def test_shutdown_releases_the_locks_and_takes_no_more():
    made = loaded(1)
    queue_of(made).locked = False
    consume(made)
    run(made.service.lock_periodically())
    assert journal(made) == [["lock", "T/a/0", "T/a/1"]]
    run(made.service.shutdown())
    assert journal(made) == [["unlock", "T/a/0", "T/a/1", False]]
    run(made.service.lock_periodically())
    made.run_task(0)
    assert journal(made) == [["later", "", 3000]]
    broadcasting = loaded(message_model="BROADCASTING")
    run(broadcasting.service.shutdown())
    assert journal(broadcasting) == []


def test_names_are_javas():
    assert OrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT == SUSPEND
    assert client().consumer.config.retry_topic == "%RETRY%G"
