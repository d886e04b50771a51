"""CONSUMER_IDLE: more members than queues."""

from dataclasses import replace

import msgspec

from rebalance_model.observe.events import Subscription
from tests.support.rounds import MINE, evidence, rounds
from tests.support.trace import TOPIC, Trace, holding


def test_more_members_than_queues_are_idle_after_60_s():
    four = {"a": holding(0), "b": holding(1)}
    trace = Trace(route=2)
    rounds(trace, 0, 20, four)
    rounds(trace, 20, 100, four | {"c": holding(), "d": holding()})
    rounds(trace, 100, 120, four)
    assert trace.incidents(*MINE) == [(80, "OPENED", "CONSUMER_IDLE"), (100, "RESOLVED", "CONSUMER_IDLE")]
    assert evidence(trace, "CONSUMER_IDLE") == {"members": 4, "queues": 2, "idle": 2, "who": "c, d"}


def test_as_many_members_as_queues_are_a_near_miss():
    trace = rounds(Trace(route=2), 0, 120, {"a": holding(0), "b": holding(1)})
    assert trace.incidents(*MINE) == []


def test_the_queues_of_a_topic_that_only_some_members_subscribe_count():
    """From the simulation, seed 364: the heartbeat of c, which subscribes one topic, replaces the broker's table."""
    trace = Trace(route=2, topics=(TOPIC, "Other"))
    two = {"a": replace(holding(0), subscribes=trace.topics), "b": replace(holding(1), subscribes=trace.topics)}
    rounds(trace, 0, 20, two)
    trace.topics = (TOPIC,)
    rounds(trace, 20, 120, two | {"c": replace(holding(), subscribes=trace.topics)})
    assert trace.incidents("CONSUMER_IDLE") == []


def test_while_a_topics_route_is_unknown_no_member_is_reported_idle():
    trace = Trace(route=1)
    listed = trace._connections
    both = (Subscription(topic="Orders", sub_string="*"), Subscription(topic="Other", sub_string="*"))
    retry = Subscription(topic="%RETRY%g", sub_string="*")
    trace._connections = lambda members, now: msgspec.structs.replace(
        listed(members, now), subscriptions=(retry, *both)
    )
    rounds(trace, 0, 120, {"a": holding(0), "b": holding()})
    assert trace.incidents(*MINE) == []
