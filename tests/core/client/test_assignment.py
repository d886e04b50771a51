"""A share that the broker computed: queues to pull and queues to pop."""

import pytest

from rebalance_model.entities import MessageQueue
from tests.core.client.harness import Q0, Q1, client, journal, run
from tests.differential.client_world import DOWN

POP_RETRY = "%RETRY%G_T"


def assigned(*assignments, **config):
    made = client(client_rebalance=False, **config)
    made.subscribe("T")
    made.order("assignments", "T", list(assignments))
    return made


@pytest.mark.parametrize(("where", "mode"), [("CONSUME_FROM_LAST_OFFSET", "MAX"), ("CONSUME_FROM_FIRST_OFFSET", "MIN")])
def test_some_are_pulled_and_some_popped(where, mode):
    made = assigned((Q0, "PULL"), (Q1, "POP"), (None, "PULL"), consume_from_where=where)
    assert made.rebalance()
    entries = journal(made, "pull later", "pop later", "changed")
    assert [entry[:2] for entry in entries] == [["pull later", "T/a/0"], ["pop later", "T/a/1"], ["changed", "T"]]
    assert entries[1][2:] == [mode, 500]
    assert entries[2][2:] == [None, ["T/a/0", "T/a/1"]]
    assert made.rebalance()
    assert journal(made, "changed", "pull later", "pop later") == []


@pytest.mark.parametrize("answer", [DOWN, None])
def test_without_an_answer_nothing_changes_and_it_comes_back_soon(answer):
    made = assigned((Q0, "PULL"), (Q1, "POP"))
    made.rebalance()
    made.order("assignments", "T", answer)
    assert not made.rebalance()
    assert len(made.consumer.working_message_queues("T")) == 2


def test_a_switch_between_pull_and_pop_adds_or_removes_the_pop_retry_topic():
    made = assigned((Q0, "PULL"))
    assert made.rebalance()
    retry = made.consumer.subscription_inner[POP_RETRY]
    assert (retry.topic, retry.sub_string, retry.sub_version) == (POP_RETRY, "*", made.host.time)
    made.order("assignments", "T", [(Q0, "PULL"), (Q1, "POP")])
    made.rebalance()
    assert POP_RETRY in made.consumer.subscription_inner
    made.order("assignments", "T", [(Q1, "POP")])
    made.rebalance()
    assert POP_RETRY not in made.consumer.subscription_inner
    assert made.state()["popped"] == ["T/a/1"]
    made.order("assignments", "T", [])
    assert made.rebalance()
    assert made.state()["popped"] == []
    retry = client(client_rebalance=False)
    retry.subscribe("%RETRY%G")
    retry.order("assignments", "%RETRY%G", [(("%RETRY%G", "a", 0), "PULL")])
    retry.rebalance()
    assert list(retry.consumer.subscription_inner) == ["%RETRY%G"]


def test_each_kind_of_change_is_reported():
    made = assigned((Q0, "PULL"), (Q1, "POP"))
    made.rebalance()
    for share in (
        [(Q0, "PULL")],
        [(Q0, "PULL"), (Q1, "POP")],
        [(Q1, "POP")],
        [(Q1, "POP"), (Q0, "PULL")],
        [(Q0, "POP")],
    ):
        made.order("assignments", "T", share)
        journal(made)
        made.rebalance()
        assert len(journal(made, "changed")) == 1, share
        popped = {tuple(key) for key, mode in share if mode == "POP"}
        assert {(mq.topic, mq.broker, mq.queue_id) for mq in made.consumer.pop_process_queue_table} == popped


def test_a_popped_queue_without_pops_is_created_again():
    made = assigned((Q1, "POP"))
    made.rebalance()
    popped = made.consumer.pop_process_queue_table[MessageQueue(*Q1)]
    made.host.time += 120_000
    made.rebalance()
    assert made.consumer.pop_process_queue_table[MessageQueue(*Q1)] is popped
    made.host.time += 1
    assert made.rebalance()
    assert popped.dropped
    assert made.consumer.pop_process_queue_table[MessageQueue(*Q1)] is not popped
    made.unsubscribe("T")
    made.truncate()
    assert made.state()["popped"] == []


def test_other_topics_queues_stay():
    made = assigned((Q0, "PULL"), (Q1, "POP"))
    made.rebalance()
    other = [(("U", "a", 0), "PULL"), (("U", "a", 1), "POP")]
    made.subscribe("U")
    made.order("assignments", "U", other)
    made.order("assignments", "T", [])
    made.rebalance()
    assert made.consumer.working_message_queues("U") == {MessageQueue(*key) for key, _ in other}
    assert made.consumer.working_message_queues("T") == set()


def test_a_queue_that_is_dropped_is_not_working():
    made = assigned((Q0, "PULL"), (Q1, "POP"))
    made.rebalance()
    made.consumer.process_queue_table[MessageQueue(*Q0)].dropped = True
    assert made.consumer.working_message_queues("T") == {MessageQueue(*Q1)}
    made.consumer.pop_process_queue_table[MessageQueue(*Q1)].dropped = True
    assert made.consumer.working_message_queues("T") == set()


def test_a_route_of_a_topic_that_is_not_subscribed_is_passed_over():
    made = client()
    made.route("T", [Q0])
    assert made.consumer.topic_subscribe_info_table == {}


def test_routes_are_sorted_as_java_sorts_them():
    made = client()
    made.subscribe("T")
    made.route("T", [("T", "b", 0), ("T", "a", 10), ("T", "a", 9), ("T", "a", 9)])
    assert [str(mq) for mq in made.consumer.topic_subscribe_info_table["T"]] == ["T@a:9", "T@a:10", "T@b:0"]
    assert run(made.host.find_consumer_id_list("T", "G")) == ["c1"]
