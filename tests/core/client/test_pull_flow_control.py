"""One round of a pull: each reason to wait, its delay, and what each answer does."""

import pytest

from rebalance_model.dialect import RELEASE_4_9
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client.cached_messages import MIB, Message
from simulation.rocketmq.client.pull_flow_control import HeldBack, Pull, pull_message
from simulation.rocketmq.client.pull_offset import compute_pull_from_where
from tests.core.client.harness import Q0, client, journal, owner, run
from tests.differential.client_world import DOWN, REFUSED

QUEUE = MessageQueue(*Q0)


def pull(made):
    return run(pull_message(made.consumer, made.host.requests[Q0]))


def cached(made):
    return made.consumer.process_queue_table[QUEUE]


@pytest.mark.parametrize(
    ("hold", "reason", "delay"),
    [
        (lambda made: made.run_state(False), HeldBack.NOT_RUNNING, 3),
        (lambda made: made.pause(True), HeldBack.PAUSED, 1000),
        (lambda made: setattr(cached(made), "msg_count", 1001), HeldBack.TOO_MANY_MESSAGES, 50),
        (lambda made: setattr(cached(made), "msg_size", 101 * MIB), HeldBack.TOO_MANY_BYTES, 50),
        (lambda made: cached(made).put_message([Message(0), Message(2001)]), HeldBack.SPAN_TOO_LONG, 50),
        (lambda made: made.unsubscribe("T"), HeldBack.NOT_SUBSCRIBED, 3),
    ],
)
def test_a_queue_that_is_held_back_is_stamped_and_comes_again(hold, reason, delay):
    made = owner(pull_time_delay_when_exception=3)
    hold(made)
    made.advance(1)
    assert pull(made) is reason
    assert journal(made) == [["pull later", "T/a/0", 100, delay]]
    assert cached(made).last_pull_timestamp == made.host.time


def test_at_the_thresholds_it_is_still_pulled():
    made = owner()
    queue = cached(made)
    queue.put_message([Message(0), Message(2000)])
    queue.msg_count, queue.msg_size = 1000, 101 * MIB - 1
    assert isinstance(pull(made), Pull)


def test_a_dropped_queue_ends_its_request():
    made = owner()
    cached(made).dropped = True
    stamp = cached(made).last_pull_timestamp
    made.advance(1)
    assert pull(made) is None
    assert journal(made) == []
    assert cached(made).last_pull_timestamp == stamp


def test_an_ordered_queue_waits_for_its_lock_then_queries_the_offset_once():
    made = owner(orderly=True, pull_time_delay_when_exception=3)
    cached(made).put_message([Message(0), Message(9000)])  # no span counts here
    cached(made).locked = False
    assert pull(made) is HeldBack.NOT_LOCKED
    cached(made).locked = True
    made.order("committed", Q0, DOWN)
    assert pull(made) is HeldBack.OFFSET_UNKNOWN
    assert journal(made, "pull later") == [["pull later", "T/a/0", 100, 3]] * 2
    made.order("committed", Q0, 42)
    version = made.consumer.subscription_inner["T"].sub_version
    assert pull(made) == Pull(42, 42, version)
    journal(made)
    assert pull(made) == Pull(42, 42, version)
    assert journal(made) == []


@pytest.mark.parametrize(("offset", "committed"), [(None, None), (0, None), (1, 1)])
def test_an_offset_is_committed_by_the_way_if_there_is_something_to_commit(offset, committed):
    for model, expected in (("CLUSTERING", committed), ("BROADCASTING", None)):
        made = owner(message_model=model)
        if offset is not None:
            made.progress(Q0, offset, increase_only=False)
        assert pull(made).commit_offset == expected


def answered(made, status, *offsets):
    made.pull(Q0)
    journal(made)
    made.answer(Q0, status, 50, list(offsets))
    return journal(made)


def test_messages_are_handed_on_and_the_next_pull_keeps_its_distance():
    made = owner(pull_interval=7, consume_message_batch_max_size=2)
    assert answered(made, "FOUND", 10, 11, 12) == [
        ["later", "", 0],
        ["later", "", 0],
        ["pull later", "T/a/0", 50, 7],
    ]
    assert cached(made).msg_count == 3
    assert answered(made, "FOUND") == [["pull later", "T/a/0", 50, 0]]
    assert answered(owner(pull_interval=-1), "FOUND", 10)[-1] == ["pull later", "T/a/0", 50, 0]


@pytest.mark.parametrize("status", ["NO_NEW_MSG", "NO_MATCHED_MSG"])
def test_filtered_messages_count_as_consumed_when_nothing_waits(status):
    made = owner()
    assert answered(made, status) == [["pull later", "T/a/0", 50, 0]]
    assert made.read(Q0, "READ_FROM_MEMORY") == 50
    made.progress(Q0, 90, increase_only=False)
    answered(made, status)
    assert made.read(Q0, "READ_FROM_MEMORY") == 90
    waiting = owner()
    waiting.put(Q0, [10], 1)
    answered(waiting, status)
    assert waiting.read(Q0, "READ_FROM_MEMORY") == -1


def test_an_illegal_offset_is_mended_frozen_and_at_once():
    made = owner()
    made.progress(Q0, 90, increase_only=False)
    assert answered(made, "OFFSET_ILLEGAL") == [["later", "", 0]]
    assert cached(made).dropped
    made.run_task(0)
    assert journal(made) == [["commit", "T/a/0", 50], ["commit", "T/a/0", 50], ["rebalance later", "", 0]]
    assert QUEUE not in made.consumer.process_queue_table


def test_4_9_corrects_an_illegal_offset_10_s_later_without_a_wakeup():
    made = owner(RELEASE_4_9)
    made.progress(Q0, 90, increase_only=False)
    assert answered(made, "OFFSET_ILLEGAL") == [["later", "", 10_000]]
    made.run_task(0)
    assert journal(made) == [["commit", "T/a/0", 50], ["commit", "T/a/0", 50]]
    assert QUEUE not in made.consumer.process_queue_table


def test_correcting_a_removed_queue_only_commits():
    made = owner()
    answered(made, "OFFSET_ILLEGAL")
    made.consumer.process_queue_table.clear()
    made.run_task(0)
    assert journal(made) == [["commit", "T/a/0", 50], ["rebalance later", "", 0]]


def test_a_failed_pull_comes_again_soon_if_the_broker_is_busy():
    made = owner(pull_time_delay_when_exception=3)
    for busy, delay in ((True, 20), (False, 3)):
        made.pull(Q0)
        journal(made)
        made.fail(Q0, busy)
        assert journal(made) == [["pull later", "T/a/0", 100, delay]]


LAST = ["CONSUME_FROM_LAST_OFFSET"]
DEPRECATED = [
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
]
FIRST, TIMESTAMP = "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"


@pytest.mark.parametrize(
    ("where", "plain", "retry"),
    [*[(where, 100, 0) for where in (*LAST, *DEPRECATED)], (FIRST, 0, 0), (TIMESTAMP, 50, 100)],
)
def test_the_first_offset_of_a_queue(where, plain, retry):
    made = client(consume_from_where=where)
    key, retry_key = Q0, ("%RETRY%G", "a", 0)
    assert (made.compute(key), made.compute(retry_key)) == (plain, retry)
    for answer in (DOWN, REFUSED, -2):
        made.order("max_offsets", key, answer)
        made.order("searched", key, answer)
        assert made.compute(key) == (0 if where == FIRST else "no offset")
    made.order("committed", key, DOWN)
    assert made.compute(key) == "no offset"
    made.order("committed", key, 0)
    assert made.compute(key) == 0


def test_the_first_offset_of_a_pull_consumer():
    made = client(kind="PULL")
    made.order("committed", Q0, 9)
    assert made.compute(Q0) == 0
    lite = client(kind="LITE_PULL")
    lite.progress(Q0, 4, increase_only=False)
    assert lite.compute(Q0) == 4
    assert journal(lite) == []
    assert lite.compute(("T", "a", 1)) == 100
    for where in DEPRECATED:
        assert client(kind="LITE_PULL", consume_from_where=where).compute(Q0) == "no offset"
    assert run(compute_pull_from_where(client(kind="LITE_PULL", consume_from_where=FIRST).consumer, QUEUE)) == 0
