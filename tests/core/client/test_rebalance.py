"""One run of rebalance: the order of what it does, and what it leaves when something is missing or fails."""

import pytest

from rebalance_model.dialect import RELEASE_4_9
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client import process_queue_table
from simulation.rocketmq.client.rebalance import do_rebalance, message_queue_changed
from simulation.rocketmq.client.thresholds import share_out
from tests.core.client.harness import Q0, Q1, client, journal, owner, run
from tests.differential.client_world import DOWN, REFUSED

QUEUES = [("T", "a", queue_id) for queue_id in range(4)]


def owned(made):
    return sorted(mq.queue_id for mq, pq in made.consumer.process_queue_table.items() if not pq.dropped)


def test_pulls_are_dispatched_before_the_listener_is_called():
    made = client()
    made.subscribe("T")
    made.route("T", QUEUES)
    assert made.rebalance()
    entries = journal(made, "pull later", "heartbeat", "changed")
    assert [entry[0] for entry in entries] == ["pull later"] * 4 + ["heartbeat", "changed"]
    assert [entry[3] for entry in entries[:4]] == [500] * 4
    made.order("consumer_ids", "T", ["c1", "c0"])
    assert made.rebalance()
    assert owned(made) == [2, 3]
    names = [f"T/a/{queue_id}" for queue_id in range(4)]
    assert journal(made) == [["heartbeat", ""], ["changed", "T", names, names[2:]]]
    assert made.rebalance()
    assert journal(made) == []


def test_what_was_consumed_is_committed_before_it_is_forgotten():
    made = owner()
    made.progress(Q0, 5, increase_only=True)
    made.route("T", [Q1])
    made.rebalance()
    assert journal(made, "commit") == [["commit", "T/a/0", 5]]
    assert made.consumer.offset_store.clone_offset_table(None) == {}


def test_a_refused_lock_adds_no_queue_and_wakes_in_half_a_second():
    made = client(orderly=True)
    made.subscribe("T")
    made.route("T", [Q0, Q1])
    made.order("granted", "a", [0])
    assert not made.rebalance()
    assert owned(made) == [0]
    assert journal(made, "rebalance later") == [["rebalance later", "", 500]]


def test_an_unknown_offset_leaves_the_lock_held():
    made = client(orderly=True)
    made.subscribe("T")
    made.route("T", [Q0])
    made.order("committed", Q0, DOWN)
    made.progress(Q0, 3, increase_only=False)
    assert not made.rebalance()
    assert journal(made) == [["lock", "T/a/0"], ["offset?", "T/a/0"]]
    assert made.consumer.offset_store.clone_offset_table(None) == {}


@pytest.mark.parametrize("answer", [REFUSED, DOWN])
def test_without_members_or_route_nothing_changes(answer):
    made = owner()
    made.order("consumer_ids", "T", answer)
    assert made.rebalance()
    made.order("consumer_ids", "T", ["c1"])
    made.route("T", None)
    assert made.rebalance()
    assert owned(made) == [0, 1]
    assert journal(made, "changed") == [["changed", "T", [], []]]


def test_a_broadcasting_consumer_takes_the_whole_route_and_warns_of_none():
    made = client(message_model="BROADCASTING")
    made.subscribe("T")
    assert made.rebalance()
    assert journal(made) == [["heartbeat", ""], ["changed", "T", [], []]]
    made.route("T", [Q0, Q1])
    assert made.rebalance()
    assert owned(made) == [0, 1]
    assert journal(made, "changed") == [["changed", "T", ["T/a/0", "T/a/1"], ["T/a/0", "T/a/1"]]]


def test_an_empty_route_is_a_failed_allocation_and_keeps_the_share():
    made = owner()
    made.route("T", [])
    assert not made.rebalance()
    assert owned(made) == [0, 1]


def test_clients_are_sorted_as_java_sorts_them():
    asked = []

    class Strategy:
        name = "recorded"

        def allocate(self, group, current_cid, mq_all, cid_all):
            asked.append((group, current_cid, [mq.queue_id for mq in mq_all], list(cid_all)))

    made = client(strategy=Strategy())
    made.subscribe("T")
    made.route("T", [Q1, Q0])
    made.order("consumer_ids", "T", ["\uff5e", "b", "\U0001f600", "B"])
    assert made.rebalance()  # None is an empty share
    assert asked == [("G", "c1", [0, 1], ["B", "b", "\U0001f600", "\uff5e"])]


def test_one_topic_without_balance_is_enough_whatever_the_next_one_does():
    made = client()
    for topic, queues in (("T", []), ("%RETRY%G", [("%RETRY%G", "a", 0)])):
        made.subscribe(topic)
        made.route(topic, queues)
    made.host.message_queue_changed = None  # the second topic's listener fails
    assert not made.rebalance()


def test_a_client_missing_from_the_list_loses_all_queues():
    made = owner()
    made.order("consumer_ids", "T", ["c0"])
    assert made.rebalance()
    assert owned(made) == []


def test_a_listener_that_throws_is_no_balance_but_for_the_retry_topic():
    def throws(*_):
        raise ZeroDivisionError

    for topic, balanced in (("T", False), ("%RETRY%G", True)):
        made = client()
        made.subscribe(topic)
        made.route(topic, [(topic, "a", 0)])
        made.host.message_queue_changed = throws
        assert made.rebalance() is balanced
        assert len(made.consumer.process_queue_table) == 1


@pytest.mark.parametrize("kind", ["PULL", "LITE_PULL"])
def test_a_pull_consumer_gets_no_requests_and_bumps_no_version(kind):
    made = client(kind=kind)
    made.subscribe("T")
    made.advance(1)
    made.route("T", [Q0])
    assert made.rebalance()
    assert journal(made, "heartbeat", "pull later", "changed") == [["changed", "T", ["T/a/0"], ["T/a/0"]]]
    assert made.state()["subscriptions"] == {"T": 1}
    made.advance(200)  # no pull for a long time
    assert made.rebalance()
    assert journal(made, "changed", "commit") == []


def test_a_pull_consumers_listener_may_throw():
    def throws(*_):
        raise ZeroDivisionError

    made = client(kind="PULL")
    made.host.message_queue_changed = throws
    run(message_queue_changed(made.consumer, "T", set(), set()))


def test_only_concurrent_push_consumers_query_a_brokers_assignment():
    for config, asked in (
        ({}, True),
        ({"orderly": True}, False),
        ({"kind": "PULL"}, False),
        ({"message_model": "BROADCASTING"}, False),
        ({"client_rebalance": True}, False),
    ):
        made = client(**{"client_rebalance": False, **config})
        made.subscribe("T")
        made.route("T", [Q0])
        made.rebalance()
        assert bool(journal(made, "assignment?")) is asked, config


def test_a_zombie_lives_until_its_pull_expires():
    made = owner(orderly=True)
    made.busy(Q0, True)
    made.route("T", [Q1])
    assert made.rebalance()  # the dropped queue counts as none
    process_queue = made.consumer.process_queue_table[MessageQueue(*Q0)]
    assert (process_queue.dropped, process_queue.try_unlock_times) == (True, 1)
    made.route("T", [Q0, Q1])
    assert not made.rebalance()
    made.host.time = process_queue.last_pull_timestamp + 120_000
    made.consumer.process_queue_table[MessageQueue(*Q1)].last_pull_timestamp = made.host.time
    assert not made.rebalance()
    made.host.time += 1
    made.world.journal.clear()
    assert made.rebalance()
    assert made.consumer.process_queue_table[MessageQueue(*Q0)] is not process_queue
    assert [entry[:2] for entry in journal(made, "unlock", "lock")] == [["unlock", "T/a/0"], ["lock", "T/a/0"]]


def test_4_9_announces_no_missing_topic_and_dispatches_at_once():
    made = client(RELEASE_4_9, orderly=True)
    made.subscribe("T")
    assert made.rebalance()
    assert journal(made) == []
    made.route("T", [Q0, Q1])
    made.order("granted", "a", [0])
    assert not made.rebalance()
    assert [entry[3] for entry in journal(made, "pull later", "rebalance later")] == [0]


@pytest.mark.parametrize(("config", "locks"), [({"orderly": True}, 2), ({}, 0), ({"orderly": True, "kind": "PULL"}, 0)])
def test_4_9_locks_for_ordered_broadcasting(config, locks):
    made = client(RELEASE_4_9, message_model="BROADCASTING", **config)
    made.subscribe("T")
    made.route("T", [Q0, Q1])
    made.rebalance()
    assert len(journal(made, "lock")) == locks


def test_a_queue_that_another_task_added_is_left_to_it():
    made = client()
    made.subscribe("T")
    made.route("T", [Q0])
    theirs = owner().consumer.process_queue_table[MessageQueue(*Q0)]
    query = made.world.query_offset

    def taken_meanwhile(key):
        made.consumer.process_queue_table[MessageQueue(*Q0)] = theirs
        return query(key)

    made.world.query_offset = taken_meanwhile
    assert made.rebalance()
    assert made.consumer.process_queue_table[MessageQueue(*Q0)] is theirs
    assert journal(made, "pull later", "changed") == []


def test_a_frozen_client_can_end_in_the_middle():
    """Between its lock request and the answer nothing of it is in the table; the broker's lock stays."""
    made = client(orderly=True)
    made.subscribe("T")
    made.route("T", [Q0])

    class Never:
        def __await__(self):
            yield

    async def no_answer(*_):
        made.world.lock("a", [Q0])
        await Never()

    made.host.lock_batch_mq = no_answer
    coroutine = do_rebalance(made.consumer)
    coroutine.send(None)
    coroutine.close()
    assert journal(made, "lock") == [["lock", "T/a/0"]]
    assert not made.consumer.process_queue_table


@pytest.mark.parametrize(
    ("for_topic", "queues", "for_queue"),
    [(1000, 1, 1000), (1000, 3, 333), (1000, 1000, 1), (1000, 1001, 1), (1000, 0, 7), (-1, 3, 7)],
)
def test_thresholds_are_shared_out(for_topic, queues, for_queue):
    config = client(
        pull_threshold_for_topic=for_topic,
        pull_threshold_for_queue=7,
        pull_threshold_size_for_topic=for_topic,
        pull_threshold_size_for_queue=7,
    ).consumer.config
    share_out(config, queues)
    assert (config.pull_threshold_for_queue, config.pull_threshold_size_for_queue) == (for_queue, for_queue)


def test_unsubscribed_topics_are_dropped_without_a_request():
    made = owner(orderly=True)
    process_queue = made.consumer.process_queue_table[MessageQueue(*Q0)]
    made.unsubscribe("T")
    process_queue_table.truncate_message_queue_not_my_topic(made.consumer)
    assert process_queue.dropped
    assert not made.consumer.process_queue_table
    assert journal(made) == []
