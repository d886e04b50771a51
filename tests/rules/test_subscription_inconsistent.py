"""SUBSCRIPTION_INCONSISTENT: members of a group with different subscriptions."""

import pytest

from rebalance_model.observe.events import Subscription
from rebalance_model.observe.state import IncidentKey
from tests.support.hook_trace import HookTrace
from tests.support.incident_rows import evidence, rows, transitions_of
from tests.support.trace import TOPIC, Held, Member, Trace

SUBSCRIPTIONS = "SUBSCRIPTION_INCONSISTENT"


def subscribed(trace: HookTrace, at: float, **expressions: tuple[str, str | None]) -> HookTrace:
    """Heartbeats of clients with the (kind, expression) of their one topic."""
    for client, (kind, text) in expressions.items():
        one = Subscription(topic=TOPIC, sub_string=text, expression_type=kind, sub_version=round(at * 1000))
        retry = Subscription(topic=f"%RETRY%{client}", sub_string="*")
        trace.heart_beat(at, client, subscriptions=(one, retry))
    return trace


@pytest.mark.parametrize(
    ("a", "b", "opens"),
    [
        (("TAG", "x || y"), ("TAG", "y||x"), False),  # the same tags
        (("TAG", "*"), ("TAG", ""), False),  # both: all
        (("TAG", "x"), ("TAG", "x || y"), True),  # ali#212: the broker filters for both by one of them
        (("TAG", "x"), ("SQL92", "x"), True),
        (("SQL92", "k > 1"), ("SQL92", "k > 2"), True),
        (("SQL92", "k > 1"), ("SQL92", " k > 1 "), False),
    ],
)
def test_expressions_of_one_topic_are_compared_by_what_they_mean(a, b, opens):
    trace = HookTrace().boots(0)
    for at in range(1, 182, 30):
        subscribed(trace.passes(at), at, a=a, b=b)
    expected = [(151, "OPENED", "SUBSCRIPTION_INCONSISTENT EXPRESSION")] if opens else []
    assert transitions_of(trace, SUBSCRIPTIONS) == expected


@pytest.mark.parametrize(("b", "c", "opens"), [("x", "x", False), (None, None, False), ("x", "y", True)])
def test_an_expression_that_cannot_be_read_may_be_another_members(b, c, opens):
    """That of a is none of its own: it is equal to those of the others if they are."""
    trace = HookTrace().boots(0)
    for at in range(1, 182, 30):
        subscribed(trace.passes(at), at, a=("TAG", None), b=("TAG", b), c=("TAG", c))
    expected = [(151, "OPENED", "SUBSCRIPTION_INCONSISTENT EXPRESSION")] if opens else []
    assert transitions_of(trace, SUBSCRIPTIONS) == expected


def test_the_difference_is_named_and_equal_subscriptions_resolve_it():
    trace = HookTrace().boots(0)
    for at in range(1, 182, 30):
        subscribed(trace.passes(at), at, a=("TAG", "x"), b=("TAG", "x"), c=("TAG", "y"))
    assert evidence(trace, SUBSCRIPTIONS)[0] == {
        "members": 3, "members_known": 3, "topic": TOPIC, "members with TAG x": 2, "members with TAG y": 1,
        "odd_one": "c",
    }  # fmt: skip
    assert rows(trace, SUBSCRIPTIONS)[0].client_id == "c"
    subscribed(trace, 190, c=("TAG", "x"))
    assert transitions_of(trace, SUBSCRIPTIONS)[1:] == [(190, "RESOLVED", "SUBSCRIPTION_INCONSISTENT EXPRESSION")]


def test_a_rolling_upgrade_of_149_s_is_a_near_miss():
    trace = HookTrace().boots(0)
    for at in range(1, 150, 30):
        subscribed(trace.passes(at), at, a=("TAG", "x"), b=("TAG", "x || y"))
    subscribed(trace.passes(149), 150, a=("TAG", "x || y"))
    assert transitions_of(trace.passes(300), SUBSCRIPTIONS) == []


def test_a_heartbeat_without_subscriptions_keeps_the_last_one():
    """registerConsumerWithoutSub: without subscriptions nothing differs."""
    trace = HookTrace().boots(0).heart_beat(1, "a", "b")
    for at in range(31, 300, 30):
        trace.passes(at).heart_beat(at, "a").heart_beat(at, "b", subscriptions=(), without_sub=True)
    assert transitions_of(trace, SUBSCRIPTIONS) == []


def test_a_member_without_known_subscriptions_freezes_it():
    """b's only heartbeat carries no subscriptions."""
    trace = HookTrace().boots(0).heart_beat(1, "a").heart_beat(2, "b", subscriptions=(), without_sub=True)
    trace.heart_beat(3, "c", topics=(TOPIC, "Refunds"))
    for at in range(30, 220, 30):  # c differed, and does not any more
        trace.passes(at).heart_beat(at, "a", "c").heart_beat(at, "b", subscriptions=(), without_sub=True)
    assert transitions_of(trace, SUBSCRIPTIONS) == []
    assert trace.state.pending[IncidentKey(SUBSCRIPTIONS)].frozen_at is not None


def test_polls_show_it_by_the_clients_answers():
    """#7556: b has unsubscribed a topic; its share of that topic's queues has no owner."""
    trace = Trace()
    for at in range(0, 170, 10):
        members = {"a": Member((Held(0), Held(1)), subscribes=(TOPIC, "Refunds"))}
        trace.poll(at, members | {"b": Member((Held(2), Held(3)), subscribes=(TOPIC,))})
    assert trace.incidents(SUBSCRIPTIONS) == [(150, "OPENED", "SUBSCRIPTION_INCONSISTENT TOPIC_SET")]


def test_an_answer_after_the_last_heartbeat_counts():
    trace = HookTrace().boots(0).poll(2, {})
    trace.heart_beat(5, "a", "b", topics=(TOPIC, "Refunds"))
    both = {
        "a": Member((Held(0), Held(1)), subscribes=(TOPIC,)),
        "b": Member((Held(2),), subscribes=(TOPIC, "Refunds")),
    }
    trace.poll(10, both)
    assert IncidentKey(SUBSCRIPTIONS) in trace.state.pending
    trace.heart_beat(11, "a", topics=(TOPIC, "Refunds"))
    assert IncidentKey(SUBSCRIPTIONS) not in trace.state.pending
