"""The scenario table of what clients answer: for each rule one trace that fires, a near miss, a recovery; and why.

Rounds are 10 s apart, as the collector's are. ``four`` is a healthy pair: AVG gives a the queues 0 and 1, b 2 and 3.
"""

from dataclasses import replace

import msgspec
import pytest

from rebalance_model.allocation import strategy
from rebalance_model.observe.effects import IncidentTransition, RebalanceSettled
from rebalance_model.observe.events import RpcError, Subscription, TopicRoute
from rebalance_model.observe.policy import Policy
from tests.scenarios.hook_trace import HookTrace
from tests.scenarios.trace import SILENT, START, Held, Member, Trace, holding, mq

CIRCLE = "AllocateMessageQueueAveragelyByCircle"
HASH = "AllocateMessageQueueConsistentHash"
OWN = "com.example.MyStrategy"
FOUR = {"a": holding(0, 1), "b": holding(2, 3)}
MINE = (
    "QUEUE_UNASSIGNED",
    "QUEUE_DOUBLE_OWNED",
    "ASSIGNMENT_MISMATCH",
    "STRATEGY_MISMATCH",
    "MIXED_CONSUME_MODE",
    "ZOMBIE_QUEUE",
    "UNLOCK_PENDING",
    "CLIENT_UNRESPONSIVE",
    "CONSUMER_IDLE",
    "ASSIGNMENT_SKEW",
    "ROUTE_VIEW_SPLIT",
    "REBALANCE_STALLED",
    "QUEUE_STALLED",
)
"""The rules of this table: a trace may show what others find, too (the clients' clocks are hours off)."""


def rounds(trace: Trace, start: float, stop: float, members: dict[str, Member], lag: int | None = None) -> Trace:
    """A round every 10 s, the last one before ``stop``; with ``lag``, every queue has so much more each round."""
    at = start
    while at < stop:
        grown = round(at / 10) * (lag or 0)
        trace.poll(at, members, None if lag is None else dict.fromkeys(range(4), (200 + grown, 100)))
        at += 10
    return trace


def concurrent(*queue_ids: int, **fields: object) -> Member:
    return replace(holding(*queue_ids, **fields), orderly=False)


def evidence(trace: Trace, code: str) -> dict[str, object]:
    """Of the first transition of this code."""
    first = next(e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == code)
    assert first.explanation
    assert first.first_step
    return msgspec.json.decode(first.evidence)


# QUEUE_UNASSIGNED


def test_a_queue_of_nobody_opens_after_150_s_and_resolves_when_somebody_has_it():
    """a gives queue 1 up at 20 and b never takes it. Polls do not show how it was given up: the broker may have to find
    out first that an owner is gone (120 s and a scan), and the heirs to look again (20 s). At 170 it is 150 s, and
    everybody has answered: not more than 150 s; at 180 it is.
    """
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 200, {"a": holding(0), "b": holding(2, 3)})
    rounds(trace, 200, 230, FOUR)
    assert trace.incidents("QUEUE_UNASSIGNED") == [
        (180, "OPENED", "QUEUE_UNASSIGNED"),
        (200, "RESOLVED", "QUEUE_UNASSIGNED"),
    ]
    assert evidence(trace, "QUEUE_UNASSIGNED") == {
        "owner": None,
        "expected_owner": "a",
        "former_owner": "a",
        "unowned_ms": 160_000,
        "limit_ms": 150_000,
        "lag": None,
        "lag_then": None,
    }


def test_a_hand_over_that_ends_in_time_is_a_near_miss():
    """As long as it may take when an owner vanishes: 130 s at the broker and 20 s at its heirs."""
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 180, {"a": holding(0), "b": holding(2, 3)})
    rounds(trace, 180, 200, FOUR)
    assert trace.incidents(*MINE) == []


def test_a_queue_of_nobody_is_critical_when_its_lag_grows():
    trace = rounds(Trace(), 0, 20, FOUR, lag=0)
    rounds(trace, 20, 200, {"a": holding(0), "b": holding(2, 3)}, lag=5)
    opened = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "QUEUE_UNASSIGNED"]
    assert [(e.severity, e.subject) for e in opened] == [("critical", "Orders@broker-a:1")]


def test_a_new_queue_has_60_s():
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


def test_a_queue_that_the_route_has_no_more_is_nobodys_by_right():
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, {"a": holding(0, 1), "b": holding(2)}, route=3)
    rounds(trace, 30, 250, {"a": holding(0, 1), "b": holding(2)}, lag=5)  # the broker still has offsets of queue 3
    assert trace.incidents(*MINE) == []


def test_with_a_silent_member_it_is_not_known_that_nobody_has_the_queue():
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 40, {"a": holding(0), "b": holding(2, 3)})
    rounds(trace, 40, 250, {"a": holding(0), "b": SILENT})
    assert trace.incidents("QUEUE_UNASSIGNED") == []


def test_a_group_that_comes_back_after_a_night_has_the_time_of_a_new_one():
    """Nobody had the queues for 300 s; the members that come take them one by one. Whose each is to be is not known."""
    four = {c: replace(m, strategy=OWN) for c, m in {"a": holding(0, 3), "b": holding(1, 2)}.items()}
    trace = rounds(Trace(), 0, 20, four)
    rounds(trace, 20, 320, {})
    rounds(trace, 320, 460, four | {"a": replace(holding(0), strategy=OWN)})
    rounds(trace, 460, 490, four)
    assert trace.incidents("QUEUE_UNASSIGNED") == []


def test_another_heir_has_its_own_time():
    """b, which is to have queue 3, has not taken it by 150, when c comes and is to have it: c has only begun."""
    trace = rounds(Trace(), 0, 20, {"a": holding(0, 1, 2, 3)})
    rounds(trace, 20, 150, {"a": holding(0, 1), "b": holding(2)})
    rounds(trace, 150, 310, {"a": holding(0, 1), "b": holding(2), "c": holding()})
    assert trace.incidents("QUEUE_UNASSIGNED") == []
    rounds(trace, 310, 330, {"a": holding(0, 1), "b": holding(2), "c": holding()})
    assert trace.incidents("QUEUE_UNASSIGNED") == [(310, "OPENED", "QUEUE_UNASSIGNED")]


def test_issue_7556_an_unsubscribed_member_still_gets_its_share_which_nobody_has():
    """Its client gave the topic up, and is a member of the group still: AVG goes on giving it queues 2 and 3."""
    trace = Trace()
    subscribing, other = replace(holding(0, 1), subscribes=("Orders",)), Member(subscribes=("Other",))
    listed = trace._connections
    trace._connections = lambda members, now: msgspec.structs.replace(
        listed(members, now), subscriptions=(Subscription(topic="Other", sub_string="*"),)
    )
    rounds(trace, 0, 200, {"a": subscribing, "b": other})
    assert [t for t in trace.incidents(*MINE) if t[1] == "OPENED"] == [(160, "OPENED", "QUEUE_UNASSIGNED")] * 2


def test_issue_351_topics_that_flip_in_the_brokers_table_do_not_begin_the_time_anew():
    """b does not subscribe Orders: their heartbeats overwrite each other's topics , and b's share is nobody's."""
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
        {"a": Member(subscribes=("Other",), pops=True), "b": Member()},  # pop clients share queues by design
        {},  # NO_ACTIVE_CLIENTS_WITH_LAG is another rule
    ],
)
def test_what_is_shared_or_left_is_not_unassigned(members):
    trace = rounds(Trace(), 0, 200, members)
    assert trace.incidents(*MINE) == []


def test_a_topic_that_nobody_subscribes_is_not_unassigned():
    trace = Trace()
    other = tuple(mq(q, "Other") for q in range(2))
    trace._fold(TopicRoute(topic="Other", queues=other, **trace._poll(START)))
    rounds(trace, 0, 200, FOUR)
    assert trace.incidents(*MINE) == []


# QUEUE_DOUBLE_OWNED


def test_issue_2837_two_owners_show_in_two_answers_of_both():
    """Both hold queue 1 from 20 on. Once may be a hand-over between the two questions; twice is not."""
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    rounds(trace, 20, 60, {"a": concurrent(0, 1), "b": concurrent(1, 2, 3)})
    rounds(trace, 60, 110, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == [
        (30, "OPENED", "QUEUE_DOUBLE_OWNED"),
        (80, "RESOLVED", "QUEUE_DOUBLE_OWNED"),  # 20 s after it was first single again
    ]
    found = evidence(trace, "QUEUE_DOUBLE_OWNED")
    assert (found["owner"], found["rival"], found["expected_owner"]) == ("a", "b", "a")


def test_a_hand_over_between_two_questions_is_a_near_miss():
    """At 20 a was asked before it gave queue 1 up, and b after it took it."""
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    trace.poll(20, {"a": concurrent(0, 1), "b": concurrent(1, 2, 3)})
    rounds(trace, 30, 60, {"a": concurrent(0), "b": concurrent(1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == []


def test_a_thawed_client_may_show_once_what_it_had():
    """a is frozen after 10 and dropped by the broker; b has its queues. Thawed at 150 it shows them in one answer, and
    its own rebalance gives them up.
    """
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    rounds(trace, 20, 60, {"a": SILENT, "b": concurrent(2, 3)})
    rounds(trace, 60, 150, {"a": SILENT, "b": concurrent(0, 1, 2, 3)})
    trace.poll(150, {"a": concurrent(0, 1), "b": concurrent(0, 1, 2, 3)})
    rounds(trace, 160, 200, {"a": concurrent(), "b": concurrent(0, 1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == []


def test_a_thawed_client_that_keeps_what_it_had_shares_it():
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    rounds(trace, 20, 60, {"a": SILENT, "b": concurrent(2, 3)})
    rounds(trace, 60, 150, {"a": SILENT, "b": concurrent(0, 1, 2, 3)})
    rounds(trace, 150, 180, {"a": concurrent(0, 1), "b": concurrent(0, 1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == [(160, "OPENED", "QUEUE_DOUBLE_OWNED")] * 2


def test_two_believed_locks_of_an_ordered_queue_fire():
    """After a broker's restart without its locks another client took queue 1, and a believes in its own for 30 s."""
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 50, {"a": holding(0, 1), "b": holding(1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == [(30, "OPENED", "QUEUE_DOUBLE_OWNED")]


@pytest.mark.parametrize(
    "mine",
    [
        Held(1, locked=False),  # it was refused the lock, and does not consume
        Held(1, lock_age=31),  # it refuses to consume by itself
        Held(1, dropped=True, unlock_attempts=1),  # it gives it up
    ],
)
def test_an_ordered_queue_has_no_second_owner_without_a_living_lock(mine):
    trace = rounds(Trace(), 0, 20, {"a": holding(0, 1), "b": holding(2, 3)})
    rounds(trace, 20, 60, {"a": Member((Held(0), mine)), "b": holding(1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == []


def test_a_lock_granted_after_the_other_was_asked_proves_nothing():
    """b shows queue 1 at 25 without its lock, and at 35 with a new one; a, asked at 30, may have lost it since."""
    trace = rounds(Trace(), 0, 30, FOUR)
    without = Member((Held(1, locked=False), Held(2), Held(3)))
    trace._fold(trace._answer("b", without, START + 25_000))
    trace._fold(trace._answer("a", holding(0, 1), START + 30_000))
    trace._fold(trace._answer("b", holding(1, 2, 3, lock_age=0), START + 35_000))
    rounds(trace, 40, 70, {"a": holding(0), "b": holding(1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == []


def grown(last: int) -> Trace:
    """Orders has 8 queues instead of 4 from 20 on; a sees them at 20, and b, in its answers up to ``last``, has not."""
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    trace.poll(20, {"a": concurrent(0, 1, 2, 3), "b": concurrent(2, 3)}, route=8)
    rounds(trace, 30, last, {"a": concurrent(0, 1, 2, 3), "b": concurrent(2, 3)})
    return rounds(trace, last, last + 50, {"a": concurrent(0, 1, 2, 3), "b": concurrent(4, 5, 6, 7)})


def test_two_owners_while_a_topic_grows_are_on_their_way():
    """The lab's half hour: one client worked with the new route, and the other, for 20 s more, with the former."""
    assert grown(50).incidents("QUEUE_DOUBLE_OWNED") == []


def test_a_client_that_has_not_seen_the_queues_a_minute_after_is_none_that_just_looks_later():
    trace = grown(100)
    assert trace.incidents("QUEUE_DOUBLE_OWNED")[:2] == [(80.001, "OPENED", "QUEUE_DOUBLE_OWNED")] * 2
    opened = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.transition == "OPENED"]
    assert {e.severity for e in opened if e.code == "QUEUE_DOUBLE_OWNED"} == {"critical"}


def test_two_owners_in_a_topic_that_lost_queues_are_two_owners():
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    for at in (20, 30):
        trace.poll(at, {"a": concurrent(0, 1), "b": concurrent(1, 2)}, route=3)
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == [(30, "OPENED", "QUEUE_DOUBLE_OWNED")]


def test_of_a_silent_owner_it_is_not_known_and_the_incident_stays():
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    rounds(trace, 20, 40, {"a": concurrent(0, 1), "b": concurrent(1, 2, 3)})
    rounds(trace, 40, 100, {"a": SILENT, "b": concurrent(1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == [(30, "OPENED", "QUEUE_DOUBLE_OWNED")]
    rounds(trace, 100, 130, {"b": concurrent(1, 2, 3)})
    assert trace.incidents("QUEUE_DOUBLE_OWNED")[-1] == (120, "RESOLVED", "QUEUE_DOUBLE_OWNED")


# ASSIGNMENT_MISMATCH


SWAPPED = {"a": holding(0, 2), "b": holding(1, 3)}


def test_owners_that_are_not_the_strategys_are_told_60_s_after_the_last_change():
    """Taken at 0 and first expected at 0; at 60 it is 60 s, at 70 more. It names who should have it."""
    trace = rounds(Trace(), 0, 100, SWAPPED)
    rounds(trace, 100, 120, FOUR)
    assert trace.incidents("ASSIGNMENT_MISMATCH") == [
        (70, "OPENED", "ASSIGNMENT_MISMATCH"),
        (70, "OPENED", "ASSIGNMENT_MISMATCH"),
        (100, "RESOLVED", "ASSIGNMENT_MISMATCH"),
        (100, "RESOLVED", "ASSIGNMENT_MISMATCH"),
    ]
    found = evidence(trace, "ASSIGNMENT_MISMATCH")
    assert (found["owner"], found["expected_owner"], found["strategy"]) == ("a", "b", "AVG")


def test_owners_that_find_their_place_within_60_s_are_a_near_miss():
    trace = rounds(Trace(), 0, 70, SWAPPED)
    rounds(trace, 70, 100, FOUR)
    assert trace.incidents(*MINE) == []


def test_every_change_begins_the_60_s_anew():
    trace = rounds(Trace(), 0, 50, SWAPPED)
    rounds(trace, 50, 100, {"a": holding(0, 3), "b": holding(1, 2)})
    assert trace.incidents(*MINE) == []


def test_issue_2732_while_brokers_name_different_members_nothing_can_be_expected():
    trace = Trace()
    trace.poll(0, SWAPPED)
    for at in range(10, 120, 10):
        trace.poll(at, SWAPPED)
        other = msgspec.structs.replace(trace._connections({"a": holding()}, START + at * 1000), broker="broker-b")
        trace._fold(other)
    assert trace.incidents("ASSIGNMENT_MISMATCH") == []


def test_of_a_silent_owner_a_mismatch_is_not_known():
    trace = rounds(Trace(), 0, 20, SWAPPED)
    rounds(trace, 20, 120, {"a": SILENT, "b": holding(1, 3)})
    assert [t for t in trace.incidents("ASSIGNMENT_MISMATCH") if t[1] == "OPENED"] == [
        (70, "OPENED", "ASSIGNMENT_MISMATCH")  # b's queue 1, and not a's queue 2
    ]


def test_retry_queues_go_where_they_go():
    retry = tuple(Held(q, topic="%RETRY%g") for q in range(2))
    trace = Trace()
    trace._fold(TopicRoute(topic="%RETRY%g", queues=tuple(mq(q, "%RETRY%g") for q in range(2)), **trace._poll(START)))
    rounds(trace, 0, 200, {"a": Member((Held(0), Held(1), *retry)), "b": holding(2, 3)})
    assert trace.incidents(*MINE) == []


# What is expected: declared, configured, inferred


@pytest.mark.parametrize(
    ("declared", "policy", "basis"),
    [
        (CIRCLE, Policy(), "DECLARED"),
        (OWN, Policy(allocate_strategy="AVG_BY_CIRCLE"), "CONFIGURED"),
        (OWN, Policy(), "INFERRED"),  # AVG and CONSISTENT_HASH put them elsewhere
    ],
)
def test_the_strategy_is_declared_or_configured_or_inferred(declared, policy, basis):
    trace = Trace(policy=policy)
    both = {"a": replace(holding(0, 2), strategy=declared), "b": replace(holding(1, 3), strategy=declared)}
    rounds(trace, 0, 20, both)
    assert (trace.state.strategy, trace.state.strategy_basis) == ("AVG_BY_CIRCLE", basis)
    assert [trace.state.queues[mq(q)].expected for q in range(4)] == ["a", "b", "a", "b"]


def hashed(declared: str = HASH, virtual_nodes: int = 10) -> dict[str, Member]:
    plan = strategy("CONSISTENT_HASH", virtual_node_cnt=virtual_nodes).plan("g", [mq(q) for q in range(4)], ["a", "b"])
    return {c: replace(holding(*(m.queue_id for m in share or ())), strategy=declared) for c, share in plan.items()}


def test_a_consistent_hash_is_trusted_once_its_defaults_explain_what_is_seen():
    trace = rounds(Trace(), 0, 20, hashed())
    assert (trace.state.strategy, trace.state.strategy_basis) == ("CONSISTENT_HASH", "DECLARED")
    moved = {c: replace(m, holds=()) for c, m in hashed().items()}
    moved["a"] = replace(moved["a"], holds=tuple(Held(q) for q in range(4)))
    rounds(trace, 20, 110, moved)
    assert {t[2] for t in trace.incidents(*MINE)} >= {"ASSIGNMENT_MISMATCH"}


def test_a_consistent_hash_of_other_parameters_expects_nobody():
    trace = rounds(Trace(), 0, 200, hashed(virtual_nodes=3))
    assert trace.state.strategy == ""
    assert trace.incidents(*MINE) == []


def test_a_topic_that_nobody_subscribes_hides_no_strategy():
    trace = Trace()
    trace._fold(TopicRoute(topic="Other", queues=(mq(0, "Other"),), **trace._poll(START)))
    rounds(trace, 0, 20, {c: replace(m, strategy=OWN) for c, m in FOUR.items()})
    assert trace.state.strategy_basis == "INFERRED"


def test_an_inferred_strategy_is_given_up_when_it_explains_no_more_what_is_seen():
    """Two rooms of machines, say: what looked like AVG was not."""
    both = {c: replace(m, strategy=OWN) for c, m in FOUR.items()}
    trace = rounds(Trace(), 0, 20, both)
    assert trace.state.strategy_basis == "INFERRED"
    swapped = {c: replace(m, strategy=OWN) for c, m in {"a": holding(0, 3), "b": holding(2, 1)}.items()}
    rounds(trace, 20, 90, swapped)
    assert trace.state.strategy_basis == "INFERRED"
    rounds(trace, 90, 110, swapped)
    assert (trace.state.strategy, trace.state.strategy_basis) == ("", "")
    assert trace.incidents(*MINE) == []


def test_one_member_alone_is_explained_by_every_strategy():
    trace = rounds(Trace(), 0, 30, {"a": replace(holding(0, 1, 2, 3), strategy=OWN)})
    assert trace.state.strategy == ""


def test_where_the_strategy_is_not_known_a_rebalance_is_not_called_unconverged():
    trace = rounds(Trace(), 0, 20, hashed(virtual_nodes=3))
    rounds(trace, 20, 250, {"a": replace(holding(0, 1, 2, 3), strategy=HASH)})
    assert [e.converged for e in trace.effects if isinstance(e, RebalanceSettled)] == [None]


def test_a_strategy_that_needs_parameters_can_not_be_configured():
    with pytest.raises(ValueError, match="allocate_strategy must be one of AVG, AVG_BY_CIRCLE, CONSISTENT_HASH"):
        Policy(allocate_strategy="MACHINE_ROOM")


# STRATEGY_MISMATCH, MIXED_CONSUME_MODE


@pytest.mark.parametrize(
    ("odd", "code", "said"),
    [
        (
            replace(holding(3), strategy=CIRCLE),
            "STRATEGY_MISMATCH",
            f"AllocateMessageQueueAveragely by 2, {CIRCLE} by 1",
        ),
        (replace(holding(3), orderly=False), "MIXED_CONSUME_MODE", "ordered by 2, concurrent by 1"),  # issue 6164
    ],
)
def test_what_members_must_declare_alike(odd, code, said):
    """c comes at 20 and says so at 20 and at 30; it leaves at 60."""
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 60, {"a": holding(0, 1), "b": holding(2), "c": odd})
    rounds(trace, 60, 80, FOUR)
    assert trace.incidents(code) == [(30, "OPENED", code), (60, "RESOLVED", code)]
    assert evidence(trace, code) == {"declared": said, "members": "c"}


@pytest.mark.parametrize("odd", [replace(holding(3), strategy=CIRCLE), replace(holding(3), orderly=False)])
def test_said_once_it_is_a_near_miss(odd):
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, {"a": holding(0, 1), "b": holding(2), "c": odd})
    rounds(trace, 30, 60, FOUR)
    assert trace.incidents(*MINE) == []


def test_a_member_that_has_never_answered_declares_nothing():
    trace = rounds(Trace(), 0, 40, {"a": holding(0, 1), "b": holding(2, 3), "c": SILENT})
    assert trace.incidents("STRATEGY_MISMATCH", "MIXED_CONSUME_MODE") == []


# ZOMBIE_QUEUE, UNLOCK_PENDING


def dropped(attempts: int = 0) -> Member:
    return Member((Held(0), Held(1, dropped=True, unlock_attempts=attempts)))


def test_issue_1918_a_queue_kept_as_dropped_by_who_should_have_it():
    """Dropped since the answer at 20: at 40 it is 20 s, at 50 more."""
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 80, {"a": dropped(), "b": holding(2, 3)})
    rounds(trace, 80, 100, FOUR)
    assert trace.incidents(*MINE) == [(50, "OPENED", "ZOMBIE_QUEUE"), (80, "RESOLVED", "ZOMBIE_QUEUE")]
    found = evidence(trace, "ZOMBIE_QUEUE")
    assert (found["kept_by"], found["dropped_ms"], found["limit_ms"]) == ("a", 30_000, 20_000)


def test_a_queue_that_is_dropped_for_a_moment_is_a_near_miss():
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 50, {"a": dropped(), "b": holding(2, 3)})
    rounds(trace, 50, 80, FOUR)
    assert trace.incidents(*MINE) == []


def test_a_zombie_of_a_silent_client_is_not_known_and_goes_with_it():
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 60, {"a": dropped(), "b": holding(2, 3)})
    rounds(trace, 60, 100, {"a": SILENT, "b": holding(2, 3)})
    assert trace.incidents("ZOMBIE_QUEUE") == [(50, "OPENED", "ZOMBIE_QUEUE")]
    rounds(trace, 100, 110, {"b": holding(1, 2, 3)})
    assert trace.incidents("ZOMBIE_QUEUE")[-1] == (100, "RESOLVED", "ZOMBIE_QUEUE")


def test_attempts_to_unlock_that_grow_are_told_at_the_first_growth():
    """b came at 20 and is to have queue 1; a's listener still works on it, and each rebalance tries in vain."""
    trace = rounds(Trace(), 0, 20, {"a": holding(0, 1)})
    trace.poll(20, {"a": dropped(1), "b": holding()}, route=2)
    assert trace.incidents(*MINE) == []
    trace.poll(30, {"a": dropped(2), "b": holding()})
    trace.poll(40, {"a": dropped(3), "b": holding()})
    trace.poll(50, {"a": holding(0), "b": holding(1)})
    assert trace.incidents("UNLOCK_PENDING", "ZOMBIE_QUEUE") == [
        (30, "OPENED", "UNLOCK_PENDING"),
        (50, "RESOLVED", "UNLOCK_PENDING"),
    ]
    assert evidence(trace, "UNLOCK_PENDING")["unlock_attempts"] == 2


def test_one_attempt_to_unlock_is_a_near_miss():
    trace = rounds(Trace(), 0, 20, {"a": holding(0, 1)})
    rounds(trace, 20, 50, {"a": dropped(1), "b": holding()})
    assert trace.incidents("UNLOCK_PENDING") == []


# CLIENT_UNRESPONSIVE


def test_a_client_that_does_not_answer_twice_is_unresponsive_until_it_does():
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 60, {"a": SILENT, "b": holding(2, 3)})
    rounds(trace, 60, 80, FOUR)
    assert trace.incidents("CLIENT_UNRESPONSIVE") == [
        (30, "OPENED", "CLIENT_UNRESPONSIVE"),
        (60, "RESOLVED", "CLIENT_UNRESPONSIVE"),
    ]
    assert evidence(trace, "CLIENT_UNRESPONSIVE")["queues"] == 2


def test_one_question_in_vain_is_a_near_miss():
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, {"a": SILENT, "b": holding(2, 3)})
    rounds(trace, 30, 60, FOUR)
    trace.poll(60, {"a": SILENT, "b": holding(2, 3)})
    rounds(trace, 70, 90, FOUR)
    assert trace.incidents(*MINE) == []


def test_a_client_on_two_channels_may_be_asked_on_the_dead_one():
    """The broker passes the question on to one channel of that id; after its restart that may be closed."""
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.listed_twice = "a"
    rounds(trace, 20, 60, {"a": SILENT, "b": holding(2, 3)})
    assert trace.incidents("CLIENT_UNRESPONSIVE") == []


def test_an_unresponsive_client_that_is_removed_is_no_more():
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 60, {"a": SILENT, "b": holding(2, 3)})
    trace.poll(60, {"b": holding(0, 1, 2, 3)})
    assert trace.incidents("CLIENT_UNRESPONSIVE")[-1] == (60, "RESOLVED", "CLIENT_UNRESPONSIVE")


# CONSUMER_IDLE, ASSIGNMENT_SKEW


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


def test_as_long_as_a_topics_route_is_not_known_nobody_is_called_idle():
    trace = Trace(route=1)
    listed = trace._connections
    both = (Subscription(topic="Orders", sub_string="*"), Subscription(topic="Other", sub_string="*"))
    retry = Subscription(topic="%RETRY%g", sub_string="*")
    trace._connections = lambda members, now: msgspec.structs.replace(
        listed(members, now), subscriptions=(retry, *both)
    )
    rounds(trace, 0, 120, {"a": holding(0), "b": holding()})
    assert trace.incidents(*MINE) == []


def skewed(most: int) -> dict[str, Member]:
    """a has ``most`` of the queues, b and c one each and d none."""
    return {"a": holding(*range(most)), "b": holding(most), "c": holding(most + 1), "d": holding()}


def test_issue_1333_one_member_with_more_than_twice_the_mean():
    """6 of 8 queues, the mean is 2: by an uneven hash ring, say."""
    trace = Trace(route=8)
    rounds(trace, 0, 100, {c: replace(m, strategy=HASH) for c, m in skewed(6).items()})
    even = {c: replace(holding(2 * n, 2 * n + 1), strategy=HASH) for n, c in enumerate("abcd")}
    rounds(trace, 100, 120, even)
    assert trace.incidents(*MINE) == [(60, "OPENED", "ASSIGNMENT_SKEW"), (100, "RESOLVED", "ASSIGNMENT_SKEW")]
    assert evidence(trace, "ASSIGNMENT_SKEW")["client"] == "a"


@pytest.mark.parametrize(
    ("queues", "members"),
    [
        (5, skewed(3)),  # the mean is 1.25: more than twice it, and not more than two above it
        (8, {"a": holding(*range(7)), "b": holding(7)}),  # the mean is 4: three above it, and not twice it
    ],
)
def test_far_from_the_mean_in_one_way_only_is_a_near_miss(queues, members):
    trace = rounds(Trace(route=queues), 0, 120, {c: replace(m, strategy=OWN) for c, m in members.items()})
    assert trace.incidents(*MINE) == []


def test_the_share_of_a_client_id_that_two_processes_have_is_that_of_both():
    """Consistent hashing deals out to ids that it is given twice."""
    trace = Trace(route=8, listed_twice="a")
    rounds(trace, 0, 120, {c: replace(m, strategy=HASH) for c, m in skewed(6).items()})
    assert trace.incidents("ASSIGNMENT_SKEW") == []


def test_what_a_silent_member_has_is_not_known_to_be_missing():
    members = {c: replace(m, strategy=HASH) for c, m in skewed(6).items()} | {"d": SILENT}
    trace = rounds(Trace(route=8), 0, 120, members)
    assert trace.incidents("ASSIGNMENT_SKEW") == []


# ROUTE_VIEW_SPLIT, REBALANCE_STALLED


def test_issue_1467_a_client_that_works_with_the_former_route():
    """At 20 the topic grows from 4 queues to 8: b follows and takes its half, a keeps its half of the four."""
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, FOUR, route=8)
    split = {"a": holding(0, 1), "b": holding(4, 5, 6, 7)}
    rounds(trace, 30, 120, split)
    rounds(trace, 120, 140, {"a": holding(0, 1, 2, 3), "b": holding(4, 5, 6, 7)})
    assert trace.incidents("ROUTE_VIEW_SPLIT") == [
        (90, "OPENED", "ROUTE_VIEW_SPLIT"),
        (120, "RESOLVED", "ROUTE_VIEW_SPLIT"),
    ]
    found = evidence(trace, "ROUTE_VIEW_SPLIT")
    assert (found["topic"], found["queues"], found["former_queues"], found["who"]) == ("Orders", 8, 4, "a")


def test_where_the_strategy_is_not_known_nobody_is_behind():
    own = {"a": replace(holding(0, 3), strategy=OWN), "b": replace(holding(1, 2), strategy=OWN)}
    trace = rounds(Trace(), 0, 20, own)
    trace.poll(20, own, route=8)
    rounds(trace, 30, 120, own)
    assert trace.incidents("ROUTE_VIEW_SPLIT", "REBALANCE_STALLED") == []


def test_clients_that_follow_one_after_the_other_within_60_s_are_a_near_miss():
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, FOUR, route=8)
    rounds(trace, 30, 80, {"a": holding(0, 1), "b": holding(4, 5, 6, 7)})
    rounds(trace, 80, 120, {"a": holding(0, 1, 2, 3), "b": holding(4, 5, 6, 7)})
    assert trace.incidents(*MINE) == []
    assert trace.state.routes["Orders"].former == ()


def test_where_nobody_follows_the_route_is_no_split_but_a_rebalance_that_stalls():
    """Issue 3138: the rebalance threads hang in an RPC. Changed at 20; by 80 every owner should be another."""
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, FOUR, route=8)
    rounds(trace, 30, 110, FOUR)
    rounds(trace, 110, 130, {"a": holding(0, 1, 2, 3), "b": holding(4, 5, 6, 7)})
    assert trace.incidents("ROUTE_VIEW_SPLIT", "REBALANCE_STALLED") == [
        (90, "OPENED", "REBALANCE_STALLED"),
        (110, "RESOLVED", "REBALANCE_STALLED"),
    ]
    found = evidence(trace, "REBALANCE_STALLED")
    assert (found["queues_behind"], found["first"], found["owner"]) == (6, "Orders@broker-a:2", "b")


def test_a_route_that_is_empty_for_a_while_splits_nobody():
    trace = rounds(Trace(), 0, 20, FOUR)
    trace._fold(TopicRoute(topic="Orders", queues=(), **trace._poll(START + 15_000)))
    rounds(trace, 20, 120, FOUR)
    assert trace.incidents(*MINE) == []


def test_queues_that_are_taken_while_their_owner_keeps_them_are_no_stall():
    """a works with the new route and takes 2 and 3, which b keeps: it does not see that the topic has 7 queues now."""
    trace = rounds(Trace(), 0, 20, {"a": concurrent(0, 1), "b": concurrent(2, 3)})
    trace.poll(20, {"a": concurrent(0, 1), "b": concurrent(2, 3)}, route=7)
    rounds(trace, 30, 140, {"a": concurrent(0, 1, 2, 3), "b": concurrent(2, 3)})
    assert trace.incidents("REBALANCE_STALLED") == []
    assert {what for _, _, what in trace.incidents("QUEUE_DOUBLE_OWNED")} == {"QUEUE_DOUBLE_OWNED"}


def test_one_queue_that_moves_is_no_stall():
    trace = rounds(Trace(), 0, 20, FOUR)
    trace.poll(20, FOUR, route=8)
    rounds(trace, 30, 110, {"a": holding(0, 1, 2), "b": holding(3)})
    assert trace.incidents("REBALANCE_STALLED") == []


@pytest.mark.parametrize(
    "mine",
    [
        SILENT,  # CLIENT_UNRESPONSIVE tells that
        Member((Held(0), Held(1), Held(2, dropped=True, unlock_attempts=1), Held(3, dropped=True, unlock_attempts=1))),
    ],
)
def test_what_waits_for_something_else_is_no_stall(mine):
    """b is to take 2 and 3 over from a, who is silent, or whose listener keeps them from being unlocked."""
    trace = rounds(Trace(), 0, 20, {"a": holding(0, 1, 2, 3)})
    rounds(trace, 20, 110, {"a": mine, "b": holding()})
    assert trace.incidents("REBALANCE_STALLED") == []


def test_heirs_wait_for_a_lock_that_lives_on_and_then_for_60_s_more():
    """b was killed between 10 and 20; renewed just before, its locks live until 80. Nobody takes its queues."""
    trace = rounds(Trace(), 0, 20, FOUR)
    rounds(trace, 20, 160, {"a": holding(0, 1)})
    assert trace.incidents("REBALANCE_STALLED") == [(150, "OPENED", "REBALANCE_STALLED")]


# QUEUE_STALLED


def stalled(trace: Trace, member: Member, start: float, stop: float) -> Trace:
    at = start
    while at < stop:
        trace.poll(at, {"a": member}, {0: (200 + round(at), 100)})
        at += 10
    return trace


def test_a_concurrent_queue_whose_commit_stands_is_told_after_90_s():
    """Lag and a standing commit from 0 on. One listener thread hangs; the others go on, so the client is at work."""
    trace = stalled(Trace(route=1), concurrent(0, cached=7), 0, 130)
    trace.poll(130, {"a": concurrent(0)}, {0: (400, 300)})
    assert trace.incidents(*MINE) == [
        (100, "OPENED", "QUEUE_STALLED LISTENER_HUNG"),
        (130, "RESOLVED", "QUEUE_STALLED LISTENER_HUNG"),
    ]
    found = evidence(trace, "QUEUE_STALLED")
    assert (found["stalled_ms"], found["limit_ms"], found["cached_count"]) == (100_000, 90_000, 7)


def test_a_commit_that_advances_within_90_s_is_a_near_miss():
    trace = stalled(Trace(route=1), concurrent(0, cached=7), 0, 100)
    trace.poll(100, {"a": concurrent(0)}, {0: (400, 101)})
    assert trace.incidents(*MINE) == []


def test_a_client_with_nothing_cached_waits_for_no_listener():
    trace = stalled(Trace(route=1), concurrent(0, cached=0), 0, 130)
    assert trace.incidents(*MINE) == []


def test_a_concurrent_queue_without_owner_or_with_a_silent_one_is_stalled_all_the_same():
    trace = stalled(Trace(route=1), concurrent(), 0, 110)
    assert trace.incidents(*MINE) == [(100, "OPENED", "QUEUE_STALLED UNASSIGNED")]
    trace = stalled(Trace(route=1), concurrent(0, cached=7), 0, 20)
    stalled(trace, SILENT, 20, 110)
    assert trace.incidents("QUEUE_STALLED") == [(100, "OPENED", "QUEUE_STALLED OWNER_UNRESPONSIVE")]


def test_an_error_of_the_broker_is_no_news_of_anybody():
    trace = rounds(Trace(), 0, 20, FOUR)
    for at in range(20, 300, 10):
        trace.poll(at, None)
        trace._fold(msgspec.structs.replace(trace._answer("a", SILENT, START + at * 1000), error=RpcError(code=-1)))
    assert trace.incidents(*MINE) == []


# With the broker's hook beside the polls


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


def test_a_queue_that_was_seen_to_be_unlocked_has_40_s():
    """b unlocks queue 3 at 25, and nobody takes it, though b is to have it: the first round later than 65 is at 71."""
    trace = beats(pair(**FOUR), 10, 30, FOUR)
    trace.tick(25).unlocks(25, "b", 3)
    beats(trace, 30, 90, {"a": holding(0, 1), "b": holding(2)})
    assert trace.incidents(*MINE) == [(71, "OPENED", "QUEUE_UNASSIGNED")]
    assert evidence(trace, "QUEUE_UNASSIGNED")["limit_ms"] == 40_000


def test_a_queue_whose_owner_said_goodbye_has_40_s():
    trace = beats(pair(**FOUR), 10, 30, FOUR)
    trace.tick(25).leaves(25, "b")
    beats(trace, 30, 90, {"a": holding(0, 1)})
    assert trace.incidents("QUEUE_UNASSIGNED") == [(71, "OPENED", "QUEUE_UNASSIGNED")] * 2


def test_a_queue_that_the_strategy_leaves_to_nobody_has_150_s_whatever_was_seen():
    """A thawed client stands twice in the list, and its second share is nobody's until its former channel expires."""
    trace = beats(pair(**FOUR), 10, 30, FOUR)
    trace.heart_beat(25, "a", number=1)  # AVG of a, a, b: a has 0 and 1, b has 3, and 2 is nobody's
    trace.tick(26).unlocks(26, "b", 2)
    trace.listed_twice = "a"
    beats(trace, 30, 170, {"a": holding(0, 1), "b": holding(3)})
    assert trace.incidents("QUEUE_UNASSIGNED") == []


def test_two_clients_that_pull_one_concurrent_queue_in_turn_own_it_both():
    """b goes on with queue 0, though a has begun with it at 12: a rebalance that b did not follow. There is no poll, so
    the group lives by the broker's clock.
    """
    trace = HookTrace().boots(0).heart_beat(0, "a", "b")
    trace.asks(2, "b", 0).pulls(3, "b", 0).asks(12, "a", 0)
    for at in range(12, 60, 5):
        trace.pulls(at, "a", 0).pulls(at + 1, "b", 0)
    # both since 13: b's pull at 33 shows 19 s of both, the one at 38 shows 24
    opened = [(round(at, 3), what) for at, what, _ in trace.incidents("QUEUE_DOUBLE_OWNED")]
    assert opened == [(38, "OPENED")]
    assert evidence(trace, "QUEUE_DOUBLE_OWNED")["pulled_by"] == "b"
    trace.heart_beat(65, "a", "b").passes(80).heart_beat(95, "a", "b").passes(120)
    closed = [(round(at, 3), what) for at, what, _ in trace.incidents("QUEUE_DOUBLE_OWNED")][1:]
    assert closed == [(107.001, "RESOLVED")]  # a's last pull at 57 (b's at 58), 30 s of silence, and 20 s single


def test_the_former_owners_last_pulls_are_a_near_miss():
    trace = HookTrace().boots(0).heart_beat(0, "a", "b")
    trace.poll(1, {"a": concurrent(), "b": concurrent(0)})
    trace.asks(2, "b", 0).pulls(3, "b", 0).asks(12, "a", 0)
    for at in range(12, 30, 5):
        trace.pulls(at, "a", 0).pulls(at + 1, "b", 0)
    for at in range(30, 90, 5):
        trace.pulls(at, "a", 0).passes(at + 1)
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == []
