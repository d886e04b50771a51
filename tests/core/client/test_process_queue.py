"""The process queue at its exact boundaries, which a comparison on a real clock can't reach."""

import pytest

from rebalance_model.client import ProcessQueue
from simulation.rocketmq.client.cached_messages import CachingProcessQueue, Message, NothingConsumingError
from simulation.rocketmq.client.pull_request import PopProcessQueue

T0 = 1_000_000


@pytest.fixture
def queue() -> CachingProcessQueue:
    return CachingProcessQueue.created(T0)


def messages(*offsets: int) -> list[Message]:
    return [Message(offset, 100, 20) for offset in offsets]


def test_a_lock_of_exactly_30_s_is_trusted(queue):
    assert [queue.is_lock_expired(T0 + age) for age in (0, 30_000, 30_001)] == [False, False, True]


def test_a_pull_of_exactly_120_s_ago_is_recent(queue):
    popped = PopProcessQueue(T0)
    for either in (queue, popped):
        assert [either.is_pull_expired(T0 + age) for age in (120_000, 120_001)] == [False, True]


def test_a_dropped_queue_is_unlocked_by_force_after_20_s(queue):
    assert not queue.is_unlock_forced(T0 + 20_001)
    queue.dropped = True
    assert [queue.is_unlock_forced(T0 + age) for age in (20_000, 20_001)] == [False, True]


def test_a_monitored_client_may_have_other_limits(queue):
    assert (queue.is_lock_expired(T0 + 11, 10), queue.is_pull_expired(T0 + 11, 10)) == (True, True)


def test_an_unknown_stamp_shows_no_expiry():
    unknown = ProcessQueue(None, None, None, dropped=True)
    late = T0 * T0
    assert not any(decides(late) for decides in (unknown.is_lock_expired, unknown.is_pull_expired))
    assert not unknown.is_unlock_forced(late)


def test_counters_of_the_usual_way(queue):
    assert queue.put_message(messages(10, 11, 12, 15))
    assert (queue.msg_count, queue.msg_size, queue.msg_acc_cnt, queue.max_span) == (4, 400, 5, 5)
    assert not queue.put_message(messages(10, 11, 12, 15))
    assert queue.remove_message(messages(11), T0 + 1) == 10
    assert queue.remove_message(messages(10), T0 + 2) == 12
    assert queue.remove_message(messages(12, 15), T0 + 3) == 16
    assert queue.remove_message(messages(15), T0 + 4) == -1
    assert (queue.msg_count, queue.msg_size, queue.last_consume_timestamp) == (0, 0, T0 + 4)


def test_the_broker_is_ahead_by_one_message_or_more():
    queue = CachingProcessQueue.created(T0)
    for max_offset, ahead in ((10, 0), (9, 0), (11, 1), (10, 1), (None, 1)):
        queue.put_message([Message(10, 0, max_offset)])
        assert queue.msg_acc_cnt == ahead


def test_after_a_reverse_insertion_the_last_inserted_offset_counts(queue):
    queue.put_message(messages(15, 12, 11, 10))
    assert queue.remove_message(messages(10, 11, 12, 15), T0) == 11


def test_nothing_taken_is_nothing_to_commit(queue):
    queue.put_message(messages(10))
    with pytest.raises(NothingConsumingError):
        queue.commit()


def test_a_negative_batch_is_refused_and_changes_nothing(queue):
    queue.put_message(messages(10))
    with pytest.raises(ValueError, match="Illegal Capacity: -1"):
        queue.take_messages(-1, T0 + 1)
    assert (queue.last_consume_timestamp, queue.consuming) == (T0, True)


def test_a_size_below_zero_is_divided_towards_zero(queue):
    for size, mib in ((2**20 - 1, 0), (2**20, 1), (-1, 0), (-(2**20), -1), (-(2**21) + 1, -1)):
        queue.msg_size = size
        assert queue.info().cached_msg_size_in_mib == mib
