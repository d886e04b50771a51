"""Consuming without order: batches, what is sent back, and results of dropped queues."""

import pytest

from rebalance_model.dialect import RELEASE_4_9, RELEASE_5
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client.cached_messages import Message
from tests.core.client.harness import Q0, journal, owner, run
from tests.differential.client_world import REFUSED

QUEUE = MessageQueue(*Q0)
LATER = "RECONSUME_LATER"


def loaded(count, *, dialect=RELEASE_5, listener=(), **config):
    made = owner(dialect, **config)
    messages = [Message(offset, 10) for offset in range(1, count + 1)]
    queue_of(made).put_message(messages)
    made.order("listener", None, [answer if isinstance(answer, dict) else {"status": answer} for answer in listener])
    return made, messages


def queue_of(made):
    return made.consumer.process_queue_table[QUEUE]


def consume(made, messages):
    run(made.service.consume(messages, queue_of(made), QUEUE))
    return journal(made)


def memory(made):
    return made.read(Q0, "READ_FROM_MEMORY")


def offsets_held(made):
    return [message.queue_offset for message in queue_of(made).msg_tree_map]


def test_messages_are_dealt_out_in_batches():
    made, messages = loaded(5, consume_message_batch_max_size=2)
    made.service.submit_consume_request(messages, queue_of(made), QUEUE)
    assert journal(made) == [["later", "", 0]] * 3
    for _ in range(3):
        made.run_task(0)
    assert [entry[2] for entry in journal(made)] == [[1, 2], [3, 4], [5]]
    assert memory(made) == 6


def test_the_offset_is_that_of_the_first_message_still_held():
    made, (first, second, third) = loaded(3)
    consume(made, [second])
    assert memory(made) == 1
    consume(made, [first])
    assert memory(made) == 3
    made.progress(Q0, 90, increase_only=False)
    consume(made, [third])
    assert memory(made) == 90


def test_what_a_dropped_queue_consumed_is_consumed_again_by_the_next_owner():
    made, messages = loaded(2, listener=[{"status": LATER, "drop": True}])
    assert consume(made, messages) == [["consume", "T/a/0", [1, 2]]]
    assert (memory(made), offsets_held(made)) == (-1, [1, 2])
    assert consume(made, messages) == []


@pytest.mark.parametrize("status", [LATER, None])
def test_failed_messages_are_sent_back_and_done_with(status):
    made, messages = loaded(2, listener=[status])
    assert consume(made, messages)[1:] == [["send back", "T/a/0", 1, 0], ["send back", "T/a/0", 2, 0]]
    assert (memory(made), offsets_held(made)) == (3, [])


@pytest.mark.parametrize(("ack_index", "failed"), [(-1, [1, 2, 3]), (0, [2, 3]), (2, []), (9, [])])
def test_a_listener_may_take_a_part(ack_index, failed):
    made, messages = loaded(3, listener=[{"status": "SUCCESS", "ack_index": ack_index}])
    assert [entry[2] for entry in consume(made, messages)[1:]] == failed
    assert memory(made) == 4


def test_what_can_not_be_sent_back_stays_and_comes_again_after_5_s():
    made, messages = loaded(2, listener=[{"status": "SUCCESS", "ack_index": 0}])
    made.order("send_back", None, REFUSED)
    assert consume(made, messages)[-1] == ["later", "", 5000]
    assert (memory(made), offsets_held(made), messages[1].reconsume_times) == (2, [2], 1)
    made.run_task(0)
    made.run_task(0)
    assert journal(made) == [["later", "", 0], ["consume", "T/a/0", [2]]]
    assert memory(made) == 3


def test_of_a_broadcasting_consumer_failed_messages_are_lost():
    made, messages = loaded(1, listener=[LATER], message_model="BROADCASTING")
    assert consume(made, messages) == [["consume", "T/a/0", [1]]]
    assert memory(made) == 2


def test_what_the_clean_up_has_sent_back_is_not_sent_again_but_by_4_9():
    for dialect, sent in ((RELEASE_5, [2]), (RELEASE_4_9, [1, 2])):
        made, messages = loaded(2, dialect=dialect, listener=[LATER])
        queue_of(made).remove_message(messages[:1], 0)
        assert [entry[2] for entry in consume(made, messages)[1:]] == sent


def test_a_message_expires_after_the_timeout_if_its_listener_was_called():
    made, messages = loaded(2)
    made.host.time += 10**9
    made.clean()
    assert journal(made) == []
    messages[0].consume_start = made.host.time - 15 * 60_000
    made.clean()
    assert journal(made) == []
    made.host.time += 1
    made.clean()
    assert journal(made) == [["send back", "T/a/0", 1, 3]]
    assert offsets_held(made) == [2]
    assert queue_of(made).last_consume_timestamp == made.host.time
    messages[1].consume_start = 0
    made.clean()
    made.clean()
    assert journal(made) == [["send back", "T/a/0", 2, 3]]


def test_one_clean_up_sends_16_at_most_failures_included():
    for answer, sent, left in (("ok", list(range(1, 17)), 4), (REFUSED, [1] * 16, 20)):
        made, messages = loaded(20)
        for message in messages:
            message.consume_start = 0
        made.order("send_back", None, answer)
        made.clean()
        assert [entry[2] for entry in journal(made)] == sent
        assert len(offsets_held(made)) == left


def test_a_message_consumed_while_it_is_sent_back_is_not_removed_twice():
    made, messages = loaded(2)
    messages[0].consume_start = 0
    sent_back = made.world.sent_back

    def consumed_meanwhile(*args):
        queue_of(made).remove_message(messages[:1], 7)
        return sent_back(*args)

    made.world.sent_back = consumed_meanwhile
    made.clean()
    assert (offsets_held(made), queue_of(made).last_consume_timestamp) == ([2], 7)


def test_the_start_of_consuming_is_noted():
    made, messages = loaded(1)
    consume(made, messages)
    assert messages[0].consume_start == made.host.time
    assert queue_of(made).last_consume_timestamp == made.host.time


def test_what_a_listener_finishes_of_an_emptied_queue_does_not_count():
    made, messages = loaded(2)
    made.progress(Q0, 90, increase_only=False)
    queue_of(made).clear()
    consume(made, messages)
    assert memory(made) == 90
