"""A lite-pull consumer: its pull tasks, what its application polls, and what it commits."""

import pytest

from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client.cached_messages import MIB, Message
from simulation.rocketmq.client.lite_pull import LitePull
from simulation.rocketmq.client.pull_flow_control import Pull, PullResult
from tests.core.client.harness import Q0, Q1, client, journal, run
from tests.differential.client_world import DOWN

ZERO, ONE = MessageQueue(*Q0), MessageQueue(*Q1)


def reader(**config):
    """The client, and its two assigned queues, of which the group has committed 42."""
    made = client(kind="LITE_PULL", **config)
    made.order("committed", Q0, 42)
    made.order("committed", Q1, 42)
    made.subscribe("T")
    made.route("T", [Q0, Q1])
    made.rebalance()
    made.world.journal.clear()
    lite = LitePull(made.consumer)
    lite.message_queue_changed("T", {ZERO, ONE}, {ZERO, ONE})
    return made, lite


def pull_result(*offsets):
    return PullResult("FOUND", offsets[-1] + 1, [Message(each) for each in offsets])


def in_memory(made, queue=ZERO):
    return made.consumer.offset_store.clone_offset_table(None).get(queue)


def test_the_first_pull_begins_at_the_commit_and_carries_none():
    made, lite = reader()
    assert run(lite.next_pull(lite.assigned[ZERO])) == Pull(42, None, 0, max_messages=10, suspend=20_000)
    lite.on_pull_result(lite.assigned[ZERO], PullResult("NO_NEW_MSG", 50))
    assert run(lite.next_pull(lite.assigned[ZERO])).offset == 50
    assert in_memory(made) == 42


@pytest.mark.parametrize(
    "fill",
    [
        lambda queue: setattr(queue, "msg_count", 1001),
        lambda queue: setattr(queue, "msg_size", 101 * MIB),
        lambda queue: queue.put_message([Message(0), Message(2001)]),
    ],
)
def test_a_full_queue_is_stamped_and_pulled_again_50_ms_later(fill):
    made, lite = reader()
    fill(lite.assigned[ZERO].process_queue)
    made.advance(1)
    assert run(lite.next_pull(lite.assigned[ZERO])) == 50
    assert lite.assigned[ZERO].process_queue.last_pull_timestamp == made.host.time


def test_no_queue_is_pulled_while_the_cache_of_all_is_full():
    _, lite = reader()
    for at in range(1001):
        lite.on_pull_result(lite.assigned[ONE], pull_result(at))
    assert run(lite.next_pull(lite.assigned[ZERO])) == 50
    lite.poll()
    assert isinstance(run(lite.next_pull(lite.assigned[ZERO])), Pull)


def test_a_queue_whose_offset_is_unknown_is_tried_again_after_3_s():
    made, lite = reader()
    made.consumer.offset_store.remove_offset(ZERO)
    made.order("committed", Q0, DOWN)
    assert run(lite.next_pull(lite.assigned[ZERO])) == 3_000


def test_a_poll_hands_over_one_pull_in_the_order_of_their_arrival():
    made, lite = reader()
    assert lite.on_pull_result(lite.assigned[ONE], pull_result(42, 43))
    assert lite.on_pull_result(lite.assigned[ZERO], pull_result(42))
    made.advance(1)
    polled = lite.poll()
    assert (polled.queue.message_queue, [each.queue_offset for each in polled.messages]) == (ONE, [42, 43])
    assert lite.assigned[ONE].process_queue.last_consume_timestamp == made.host.time
    assert [lite.assigned[queue].process_queue.msg_count for queue in (ZERO, ONE)] == [1, 0]
    assert lite.poll().queue.message_queue == ZERO
    assert lite.poll() is None


def test_the_position_is_committed_by_a_poll_after_the_interval():
    made, lite = reader()
    lite.on_pull_result(lite.assigned[ZERO], pull_result(42, 43))
    lite.poll()
    made.host.time += 4_999
    lite.poll()
    assert in_memory(made) == 42
    made.host.time += 1
    assert in_memory(made) == 42  # an application that hangs commits nothing
    lite.poll()
    assert (in_memory(made), in_memory(made, ONE)) == (44, 42)
    assert journal(made, "commit") == []  # it is in memory until the client's timer sends it


def test_a_queue_that_is_taken_away_ends_its_task_and_its_messages():
    made, lite = reader()
    gone = lite.assigned[ZERO]
    lite.on_pull_result(gone, pull_result(42))
    assert lite.message_queue_changed("T", {ZERO, ONE}, {ONE}) == []
    assert gone.process_queue.dropped
    assert run(lite.next_pull(gone)) is None
    assert not lite.on_pull_result(gone, pull_result(43))
    assert lite.poll() is None
    made.host.time += 5_000
    lite.poll()
    assert in_memory(made) == 42
    [again] = lite.message_queue_changed("T", {ZERO, ONE}, {ZERO, ONE})
    assert again is not gone
    assert run(lite.next_pull(gone)) is None


def test_a_consumer_that_broadcasts_reads_every_queue():
    lite = LitePull(client(kind="LITE_PULL", message_model="BROADCASTING").consumer)
    assert len(lite.message_queue_changed("T", {ZERO, ONE}, {ONE})) == 2


def test_a_queue_taken_away_while_its_offset_is_asked_for_ends_its_task(monkeypatch):
    _, lite = reader()
    gone = lite.assigned[ZERO]

    async def answered(*_):
        lite.message_queue_changed("T", {ZERO, ONE}, {ONE})
        return 42

    monkeypatch.setattr("simulation.rocketmq.client.lite_pull.compute_pull_from_where", answered)
    assert run(lite.next_pull(gone)) is None
