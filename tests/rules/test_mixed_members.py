"""MIXED_MEMBERS: members that consume in another way than most of their group."""

from dataclasses import replace

from tests.support.hook_trace import HookTrace
from tests.support.rounds import FOUR, evidence, rounds
from tests.support.trace import Trace, holding

PUSH, PULL = "CONSUME_PASSIVELY", "CONSUME_ACTIVELY"


def declaring(member, message_model="CLUSTERING", consume_type=PUSH, subscribes=("Orders",)):
    return replace(member, message_model=message_model, consume_type=consume_type, subscribes=subscribes)


PAIR = {name: declaring(member) for name, member in FOUR.items()}
BROADCASTS = declaring(holding(0, 1, 2, 3), "BROADCASTING")
WITH_C = {"a": declaring(holding(0, 1)), "b": declaring(holding(2)), "c": BROADCASTS}
"""c broadcasts: it has all queues, and its share (3) is nobody's."""
CODE = "MIXED_MEMBERS"


def roots(trace):
    """Return the codes of the incidents that no other one explains, as they were opened or became independent."""
    return {one.code for one in trace.effects if getattr(one, "parent", "") is None}


def flipping(trace, start, stop, members):
    """Add rounds in which the broker reports in turn what c and what the others declare, as after their heartbeats."""
    for at in range(start, stop, 10):
        trace.message_model = "BROADCASTING" if at % 20 else "CLUSTERING"
        rounds(trace, at, at + 10, members, lag=5)
    return trace


def test_one_that_broadcasts_is_named_and_explains_what_its_share_lacks():
    trace = flipping(rounds(Trace(), 0, 20, PAIR, lag=0), 20, 400, WITH_C)
    assert trace.incidents(CODE) == [(20, "OPENED", f"{CODE} MESSAGE_MODEL")]
    assert evidence(trace, CODE) == {
        "members": 3,
        "differing": "c",
        "differing_count": 1,
        "message_models": "BROADCASTING by 1, CLUSTERING by 2",
        "consume_types": f"{PUSH} by 3",
        "without_subscriptions": 0,
    }
    assert roots(trace) - {"ORDERED_QUEUE_STUCK", "CLOCK_SKEW"} == {CODE}
    assert trace.owners() == {0: "a", 1: "a", 2: "b", 3: None}
    assert "QUEUE_UNASSIGNED" in {one.code for one in trace.effects if hasattr(one, "code")}


def test_it_is_resolved_when_that_member_has_left_for_30_s():
    """By then what it explains has ended, and sends no alert of its own."""
    trace = flipping(rounds(Trace(), 0, 20, PAIR), 20, 60, WITH_C)
    trace.message_model = "CLUSTERING"
    rounds(trace, 60, 120, PAIR)
    assert trace.incidents(CODE) == [(20, "OPENED", f"{CODE} MESSAGE_MODEL"), (90, "RESOLVED", f"{CODE} MESSAGE_MODEL")]


def test_a_group_in_which_all_broadcast_is_a_near_miss():
    everything = dict.fromkeys("abc", BROADCASTS)
    trace = rounds(Trace(message_model="BROADCASTING"), 0, 200, everything, lag=5)
    assert trace.incidents() == []
    assert set(trace.owners().values()) == {None}


def test_among_members_that_broadcast_the_one_that_does_not_is_named():
    members = {"a": BROADCASTS, "b": BROADCASTS, "c": declaring(holding(2, 3))}
    trace = rounds(Trace(message_model="BROADCASTING"), 0, 200, members, lag=5)
    assert trace.incidents() == [(0, "OPENED", f"{CODE} MESSAGE_MODEL")]
    assert evidence(trace, CODE)["differing"] == "c"


def test_members_that_declare_nothing_are_a_near_miss():
    """A client in C++ declares numbers, and one that never answers nothing."""
    members = PAIR | {"c": replace(holding(), consume_type="1", message_model="0", subscribes=("Orders",))}
    assert rounds(Trace(), 0, 60, members).incidents(CODE) == []


def test_a_lite_pull_reader_among_push_consumers_is_a_warning():
    members = {**PAIR, "b": declaring(holding(2, 3), consume_type=PULL), "c": declaring(holding())}
    trace = rounds(Trace(), 0, 60, members)
    assert [(t, s) for t, s, _ in trace.incidents(CODE)] == [(0, "OPENED")]
    found = next(one for one in trace.effects if getattr(one, "code", "") == CODE)
    assert (found.sub_cause, found.severity, found.client_id) == ("CONSUME_TYPE", "warning", "b")


def test_a_group_of_pull_clients_that_subscribe_nothing_is_a_near_miss():
    members = {name: declaring(holding(), consume_type=PULL, subscribes=()) for name in "ab"}
    assert rounds(Trace(consume_type=PULL), 0, 200, members).incidents() == []


def test_an_answer_that_is_empty_at_first_is_a_near_miss():
    """Go answers with an empty body for about ten seconds after its start."""
    trace = rounds(Trace(), 0, 20, PAIR)
    trace.poll(20, PAIR | {"c": declaring(holding(), "", "", ())})
    trace.poll(30, PAIR | {"c": declaring(holding(), "", "", ())})
    rounds(trace, 40, 80, PAIR | {"c": declaring(holding())})
    assert trace.incidents(CODE) == []


def test_by_its_heartbeats_one_that_broadcasts_owns_nothing_that_it_pulls():
    trace = HookTrace().boots(0).heart_beat(1, "a", "b")
    trace.asks(2, "a", 0, 1).asks(2, "b", 2, 3)
    trace.heart_beat(20, "c", message_model="BROADCASTING")
    for at in range(21, 90, 5):
        trace.pulls(at, "a", 0, 1, offset=at, commit=at).pulls(at, "b", 2, 3, offset=at, commit=at)
        trace.pulls(at + 1, "c", 0, 1, 2, 3, offset=at)
        if at % 30 < 5:
            trace.heart_beat(at + 2, "a", "b").heart_beat(at + 3, "c", message_model="BROADCASTING")
    assert trace.incidents(CODE) == [(20, "OPENED", f"{CODE} MESSAGE_MODEL")]
    assert trace.owners() == {0: "a", 1: "a", 2: "b", 3: "b"}
    assert trace.incidents("QUEUE_DOUBLE_OWNED") == []


def test_one_that_subscribes_nothing_does_not_hide_that_queues_wait():
    """The broker's table is c's for most of the time, without the topic, which a subscribes still (seed 2092)."""
    trace = HookTrace().boots(0).heart_beat(1, "a").locks(2, "a", 0, 1)
    for at in range(3, 33, 5):
        trace.pulls(at, "a", 0, 1, offset=at).commits(at + 1, "a", 0, at).commits(at + 1, "a", 1, at)
    trace.unlocks(33, "a", 0, 1)
    for at in range(34, 150, 30):
        trace.heart_beat(at, "a").heart_beat(at + 1, "c", topics=()).tick(at + 2)
    trace.tick(150)
    opened = [(round(at), what) for at, what, _ in trace.incidents("ORDERED_QUEUE_STUCK")]
    assert opened == [(93, "OPENED")] * 2
