"""QUEUE_UNASSIGNED by the clients' answers, and with the broker's hook beside the polls."""

from dataclasses import replace

import msgspec
import pytest

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.events import Subscription, TopicRoute
from tests.support.hook_trace import HookTrace
from tests.support.rounds import FOUR, MINE, OWN, evidence, rounds
from tests.support.trace import SILENT, START, Member, Trace, holding, mq

# QUEUE_UNASSIGNED


def test_a_queue_that_its_owner_gives_up_is_unassigned_after_40_s():
    """a answers without queue 1 at 20, and b never takes it, though it looks every 20 s. At 60 all have answered after
    40 s: not more than 40 s; at 70 it is.
    """
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 200, {"a": holding(0), "b": holding(2, 3)})
    rounds(trace, 200, 230, FOUR)
    assert trace.incidents("QUEUE_UNASSIGNED") == [
        (70, "OPENED", "QUEUE_UNASSIGNED"),
        (200, "RESOLVED", "QUEUE_UNASSIGNED"),
    ]
    assert evidence(trace, "QUEUE_UNASSIGNED") == {
        "owner": None,
        "expected_owner": "a",
        "former_owner": "a",
        "unowned_ms": 50_000,
        "limit_ms": 40_000,
        "lag": None,
        "lag_then": None,
    }


def test_a_hand_over_that_ends_in_time_is_a_near_miss():
    """As long as it may take when both clients are there: two intervals of the heir's timer."""
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 70, {"a": holding(0), "b": holding(2, 3)})
    rounds(trace, 70, 200, FOUR)
    assert trace.incidents(*MINE) == []


@pytest.mark.parametrize(("taken", "opened"), [(180, []), (190, [(180, "OPENED", "QUEUE_UNASSIGNED")] * 2)])
def test_queues_of_an_owner_that_vanishes_are_unassigned_after_150_s(taken, opened):
    """The broker may have to find out first that it is gone (120 s and a scan), and its heirs to look again (20 s)."""
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, taken, {"a": holding(0, 1)})
    rounds(trace, taken, 200, {"a": holding(0, 1, 2, 3)})
    assert [t for t in trace.incidents("QUEUE_UNASSIGNED") if t[1] == "OPENED"] == opened


def test_an_unassigned_queue_is_critical_when_its_lag_grows():
    trace = rounds(Trace(), 0, 20, FOUR, lag=0)
    rounds(trace, 20, 200, {"a": holding(0), "b": holding(2, 3)}, lag=5)
    opened = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "QUEUE_UNASSIGNED"]
    assert [(e.severity, e.subject) for e in opened] == [("critical", "Orders@broker-a:1")]


def test_a_new_queue_is_unassigned_after_60_s():
    """Clients ask for the route every 30 s, and rebalance within 20 s."""
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, FOUR, route=5)
    rounds(trace, 30, 110, FOUR)
    assert trace.incidents("QUEUE_UNASSIGNED") == [(90, "OPENED", "QUEUE_UNASSIGNED")]
    assert evidence(trace, "QUEUE_UNASSIGNED")["limit_ms"] == 60_000


def test_a_new_queue_that_is_taken_within_60_s_is_a_near_miss():
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, FOUR, route=5)
    rounds(trace, 30, 90, FOUR)
    rounds(trace, 90, 120, {"a": holding(0, 1, 2), "b": holding(3, 4)})
    assert trace.incidents(*MINE) == []


def test_a_queue_removed_from_the_route_is_not_unassigned():
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, {"a": holding(0, 1), "b": holding(2)}, route=3)
    rounds(trace, 30, 250, {"a": holding(0, 1), "b": holding(2)}, lag=5)  # the broker still has offsets of queue 3
    assert trace.incidents(*MINE) == []


def test_an_unassigned_queue_is_unknown_while_a_member_is_silent():
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 40, {"a": holding(0), "b": holding(2, 3)})
    rounds(trace, 40, 250, {"a": holding(0), "b": SILENT})
    assert trace.incidents("QUEUE_UNASSIGNED") == []


def test_the_owner_of_a_queue_may_give_it_up_where_no_strategy_is_known():
    """Clients in Go do not name theirs, nor unlock what they give up: nobody has the queue for 60 s."""
    four = {c: replace(m, strategy=OWN) for c, m in FOUR.items()}
    trace = rounds(Trace(), 0, 20, four)
    rounds(trace, 20, 80, four | {"b": replace(holding(2), strategy=OWN), "c": replace(holding(), strategy=OWN)})
    assert trace.incidents("QUEUE_UNASSIGNED") == [(70, "OPENED", "QUEUE_UNASSIGNED")]


def test_a_group_that_returns_after_hours_has_the_limits_of_a_new_one():
    """Nobody had the queues for 300 s; the members that come take them one by one. Whose each is to be is not known."""
    four = {c: replace(m, strategy=OWN) for c, m in {"a": holding(0, 3), "b": holding(1, 2)}.items()}
    trace = rounds(Trace(), 0, 20, four)
    rounds(trace, 20, 320, {})
    rounds(trace, 320, 460, four | {"a": replace(holding(0), strategy=OWN)})
    rounds(trace, 460, 490, four)
    assert trace.incidents("QUEUE_UNASSIGNED") == []


def test_another_expected_owner_has_its_own_time():
    """b, which is to have queue 3, has not taken it by 60, when c comes and is to have it: c has only begun."""
    trace = rounds(Trace(), 0, 20, {"a": holding(0, 1, 2, 3)})
    rounds(trace, 20, 60, {"a": holding(0, 1), "b": holding(2)})
    rounds(trace, 60, 220, {"a": holding(0, 1), "b": holding(2), "c": holding()})
    assert trace.incidents("QUEUE_UNASSIGNED") == []
    rounds(trace, 220, 240, {"a": holding(0, 1), "b": holding(2), "c": holding()})
    assert trace.incidents("QUEUE_UNASSIGNED") == [(220, "OPENED", "QUEUE_UNASSIGNED")]


def test_issue_7556_the_share_of_an_unsubscribed_member_is_unassigned():
    """Its client gave the topic up, and is a member of the group still: AVG goes on giving it queues 2 and 3."""
    trace = Trace()
    subscribing, other = replace(holding(0, 1), subscribes=("Orders",)), Member(subscribes=("Other",))
    listed = trace._connections
    trace._connections = lambda members, now: msgspec.structs.replace(
        listed(members, now), subscriptions=(Subscription(topic="Other", sub_string="*"),)
    )
    rounds(trace, 0, 200, {"a": subscribing, "b": other})
    assert [t for t in trace.incidents(*MINE) if t[1] == "OPENED"] == [(160, "OPENED", "QUEUE_UNASSIGNED")] * 2


def test_issue_351_alternating_topics_do_not_restart_the_time():
    """b does not subscribe Orders: their heartbeats overwrite each other's topics, and b's share is unassigned."""
    trace = Trace()
    members = {"a": replace(holding(0, 1), subscribes=("Orders",)), "b": Member(subscribes=("Other",))}
    listed = trace._connections
    for at in range(0, 180, 10):
        of = Subscription(topic="Orders" if at % 20 else "Other", sub_string="*")
        trace._connections = lambda who, now, of=of: msgspec.structs.replace(listed(who, now), subscriptions=(of,))
        trace.poll(at, members)
    opened = [t for t in trace.incidents("QUEUE_UNASSIGNED") if t[1] == "OPENED"]
    assert opened == [(170, "OPENED", "QUEUE_UNASSIGNED")] * 2  # b is first known to be their heir at 10


@pytest.mark.parametrize(
    "members",
    [
        {"a": Member(subscribes=("Other",), pops=("Orders",)), "b": Member()},  # pop clients share queues by design
        {},  # NO_ACTIVE_CLIENTS_WITH_LAG is another rule
    ],
)
def test_shared_or_unsubscribed_queues_are_not_unassigned(members):
    trace = rounds(Trace(), 0, 200, members)
    assert trace.incidents(*MINE) == []


def test_an_unsubscribed_topic_is_not_unassigned():
    trace = Trace()
    other = tuple(mq(q, "Other") for q in range(2))
    trace._fold(TopicRoute(topic="Other", queues=other, **trace._poll(START)))
    rounds(trace, 0, 200, FOUR)
    assert trace.incidents(*MINE) == []


def pair(**kinds: Member) -> HookTrace:
    """A hook that knows two members since 0, and the first round of polls."""
    trace = HookTrace().boots(0).heart_beat(0, *kinds)
    return trace.poll(1, dict(kinds))


def beats(trace: HookTrace, start: int, stop: int, members: dict[str, Member]) -> HookTrace:
    """Heartbeats and renewals every 10 s, and a round of polls 1 s later."""
    for at in range(start, stop, 10):
        trace.heart_beat(at, *members)
        for c, member in members.items():
            if member.orderly and member.holds:
                trace.locks(at, c, *(held.queue_id for held in member.holds))
        trace.passes(at + 1).poll(at + 1, members)
    return trace


# With the broker's hook beside the polls


def test_an_unlocked_queue_is_unassigned_after_40_s():
    """b unlocks queue 3 at 25, and no client takes it, though b should have it: the first round after 65 is at 71."""
    trace = beats(pair(**FOUR), 10, 30, FOUR)
    trace.tick(25).unlocks(25, "b", 3)
    beats(trace, 30, 90, {"a": holding(0, 1), "b": holding(2)})
    assert trace.incidents(*MINE) == [(71, "OPENED", "QUEUE_UNASSIGNED")]
    assert evidence(trace, "QUEUE_UNASSIGNED")["limit_ms"] == 40_000


def test_the_queue_of_an_unregistered_owner_is_unassigned_after_40_s():
    trace = beats(pair(**FOUR), 10, 30, FOUR)
    trace.tick(25).leaves(25, "b")
    beats(trace, 30, 90, {"a": holding(0, 1)})
    assert trace.incidents("QUEUE_UNASSIGNED") == [(71, "OPENED", "QUEUE_UNASSIGNED")] * 2


def test_a_queue_that_the_strategy_leaves_out_is_tolerated_for_150_s():
    """A thawed client is listed twice, and its second share is unassigned until its former channel expires."""
    trace = beats(pair(**FOUR), 10, 30, FOUR)
    trace.heart_beat(25, "a", number=1)  # AVG of a, a, b: a has 0 and 1, b has 3, and 2 is unassigned
    trace.tick(26).unlocks(26, "b", 2)
    trace.listed_twice = "a"
    beats(trace, 30, 170, {"a": holding(0, 1), "b": holding(3)})
    assert trace.incidents("QUEUE_UNASSIGNED") == []
