"""The broker's assignment for clients that ask it: the rules that an operator of POP or of light queues relies on."""

import pytest

from rebalance_model.allocation.server_side import (
    MessageQueueAssignment,
    QueryAssignment,
    QueryAssignmentProcessor,
    RequestMode,
)
from rebalance_model.entities import MessageQueue

CLIENTS = ["c2", "c0", "c1"]


def route(count: int, broker: str = "b") -> set[MessageQueue]:
    return {MessageQueue("T", broker, i) for i in range(count)}


def ask(broker, cid, queues, clients, *, topic="T", strategy="AVG", model="CLUSTERING"):
    """The places of the queues that the broker names, and the mode; None where the client shall keep what it has."""
    found = broker.query_assignment(QueryAssignment(topic, "G", cid, strategy, model), queues, clients)
    return None if found is None else sorted((given.message_queue.queue_id, given.mode) for given in found)


def pulled(*ids):
    return [(i, "PULL") for i in ids]


def popped(*ids):
    return [(i, "POP") for i in ids]


def test_a_client_gets_its_share_whatever_the_order_of_members():
    broker = QueryAssignmentProcessor("b")
    assert [ask(broker, cid, route(4), CLIENTS) for cid in sorted(CLIENTS)] == [pulled(0, 1), pulled(2), pulled(3)]
    assert ask(broker, "c0", route(4), CLIENTS, strategy="AVG_BY_CIRCLE") == pulled(0, 3)
    assert ask(broker, "stranger", route(4), CLIENTS) == []
    given = broker.query_assignment(QueryAssignment("T", "G", "c2", "AVG"), route(4), CLIENTS)
    assert given == {MessageQueueAssignment(MessageQueue("T", "b", 3), "PULL")}


@pytest.mark.parametrize(
    ("queues", "clients", "strategy", "cid"),
    [
        (None, CLIENTS, "AVG", "c0"),  # no such topic
        (route(4), None, "AVG", "c0"),  # no such group
        (route(4), CLIENTS, "CONSISTENT_HASH", "c0"),  # a strategy that only clients know
        (route(4), CLIENTS, None, "c0"),
        (set(), CLIENTS, "AVG", "c0"),  # what the strategy refuses
        (route(4), [], "AVG", "c0"),
        (route(4), CLIENTS, "AVG", None),
    ],
)
def test_a_client_keeps_what_it_has_where_the_broker_does_not_know_better(queues, clients, strategy, cid):
    assert ask(QueryAssignmentProcessor("b"), cid, queues, clients, strategy=strategy) is None


def test_every_client_gets_all_queues_in_broadcasting_or_without_balancing():
    everything = pulled(0, 1, 2, 3)
    broker = QueryAssignmentProcessor("b", server_load_balancer_enable=False)
    assert ask(broker, "c0", route(4), CLIENTS) == everything
    assert ask(broker, "c0", route(4), None) == everything
    assert ask(broker, "c0", None, CLIENTS) is None
    balancing = QueryAssignmentProcessor("b")
    assert ask(balancing, "stranger", route(4), None, model="BROADCASTING") == everything
    assert ask(balancing, "c0", None, CLIENTS, topic="%LMQ%x", model="BROADCASTING") is None


def test_a_light_queue_is_the_one_of_this_broker_whatever_the_route():
    broker = QueryAssignmentProcessor("here")
    query = QueryAssignment("%LMQ%x", "G", "c0", "AVG")
    only = {MessageQueueAssignment(MessageQueue("%LMQ%x", "here", 0), "PULL")}
    assert broker.query_assignment(query, None, ["c0"]) == broker.query_assignment(query, route(4), ["c0"]) == only


@pytest.mark.parametrize(
    ("shared", "cid", "expected"),
    [
        (1, "c0", popped(0, 1, 2)),
        (1, "c1", popped(2, 3)),
        (1, "c2", popped(0, 1, 3)),
        (1, "stranger", []),
        (2, "c0", popped(-1)),  # all others: then every client reads every queue
        (0, "c0", popped(-1)),
        (-1, "stranger", popped(-1)),
    ],
)
def test_pop_shares_the_queues_of_the_next_clients(shared, cid, expected):
    broker = QueryAssignmentProcessor("b", default_message_request_mode="POP", default_pop_share_queue_num=shared)
    assert ask(broker, cid, route(4), CLIENTS) == expected


def test_pop_shares_the_configured_number_of_clients_queues():
    broker = QueryAssignmentProcessor("b", default_message_request_mode="POP", default_pop_share_queue_num=2)
    clients = ["c0", "c1", "c2", "c3", "c4"]
    assert ask(broker, "c3", route(5), clients) == popped(0, 3, 4)


def test_pop_by_default_names_each_broker_once():
    broker = QueryAssignmentProcessor("b", default_message_request_mode="POP")
    found = broker.query_assignment(QueryAssignment("T", "G", "c0", "AVG"), route(4, "a") | route(2, "b"), CLIENTS)
    assert found == {MessageQueueAssignment(MessageQueue("T", name, -1), "POP") for name in "ab"}


def test_pop_gives_each_client_one_queue_where_there_are_more_clients():
    broker = QueryAssignmentProcessor("b", default_message_request_mode="POP", default_pop_share_queue_num=1)
    clients = ["c0", "c1", "c2", "c3", "c4", "\u00a0"]
    assert [ask(broker, cid, route(4), clients) for cid in clients] == [popped(i) for i in (0, 1, 2, 3, 0, 1)]
    assert ask(broker, "stranger", route(4), clients) == []
    for refused in (None, "", " \t\x1f\u2003"):
        assert ask(broker, refused, route(4), clients) is None
    assert ask(broker, "c0", set(), clients) is None


def test_a_mode_is_of_one_topic_and_group():
    broker = QueryAssignmentProcessor("b")
    assert broker.set_message_request_mode("T", "G", RequestMode("POP"), topic_exists=True, group_exists=True) == (
        0,
        None,
    )
    assert ask(broker, "c0", route(4), CLIENTS) == popped(-1)
    other = QueryAssignment("T", "H", "c0", "AVG")
    assert {given.mode for given in broker.query_assignment(other, route(4), CLIENTS)} == {"PULL"}


@pytest.mark.parametrize(
    ("topic", "topic_exists", "group_exists", "expected"),
    [
        ("%RETRY%G", False, False, (16, "retry topic is not allowed to set mode")),
        ("T", False, False, (17, "topic[T] not exist")),
        ("T", True, False, (26, "subscription group does not exist")),
    ],
)
def test_a_mode_that_is_refused_changes_nothing(topic, topic_exists, group_exists, expected):
    broker = QueryAssignmentProcessor("b")
    mode = RequestMode("POP", 1)
    answer = broker.set_message_request_mode(topic, "G", mode, topic_exists=topic_exists, group_exists=group_exists)
    assert answer == expected
    assert broker.message_request_modes == {}


def test_a_retry_topic_is_pulled_whatever_the_default():
    broker = QueryAssignmentProcessor("b", default_message_request_mode="POP")
    assert ask(broker, "c0", route(4), ["c0"], topic="%RETRY%G") == pulled(0, 1, 2, 3)
