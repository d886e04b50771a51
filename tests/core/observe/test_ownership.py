"""Owners and moves: joins, leaves, deaths, route changes, in the snapshots of a poller."""

import msgspec
import pytest

from rebalance_model.observe.events import ConsumerConnection
from tests.support.trace import SILENT, Held, Member, Trace, holding

THREE = {"a": holding(0, 1), "b": holding(2), "c": holding(3)}
TWO = {"a": holding(0, 1), "b": holding(2, 3)}


def test_queues_held_when_observation_begins_did_not_move():
    trace = Trace().poll(0, TWO)
    assert trace.owners() == {0: "a", 1: "a", 2: "b", 3: "b"}
    assert {e.evidence for e in trace.effects if type(e).__name__ == "AssignmentChange"} == {"FIRST_SEEN"}
    assert trace.rebalances() == []


def test_a_join_moves_queues_and_settles_when_the_strategy_is_met():
    trace = Trace().poll(0, TWO)
    trace.poll(10, {**TWO, "c": holding()})  # listed, and has nothing yet
    trace.poll(20, THREE)
    [rebalance] = trace.rebalances()
    assert (rebalance.trigger, rebalance.trigger_client, rebalance.converged) == ("CLIENT_JOINED", "c", True)
    assert (rebalance.members_before, rebalance.members_after) == (("a", "b"), ("a", "b", "c"))
    assert rebalance.queues_moved == 1
    assert [(m.queue.queue_id, m.from_client, m.to_client) for m in rebalance.moves] == [(3, "b", "c")]
    assert trace.moves()[4:] == [(20, "RELEASED", 3, "b"), (20, "ASSIGNED", 3, "c")]
    assert {
        e.rebalance_id for e in trace.effects if type(e).__name__ == "AssignmentChange" and e.time > 1_800_000_000_000
    } == {rebalance.rebalance_id}


def test_a_leave_releases_at_once_and_its_pause_is_bounded():
    """c pulled at 0 as its last answer shows; the heir locked at 15, 5 s before its answer."""
    trace = Trace().poll(0, THREE)
    trace.poll(10, {"a": holding(0, 1), "b": holding(2)})  # c has left; its queue has no owner yet
    assert trace.owners()[3] is None
    trace.poll(20, TWO)
    [rebalance] = trace.rebalances()
    assert (rebalance.trigger, rebalance.trigger_client) == ("CLIENT_LEFT", "c")
    assert (rebalance.pause_ms_max, rebalance.queues_moved, rebalance.converged) == (15_000, 1, True)
    assert rebalance.pause_is_at_most


def test_polls_do_not_show_how_a_client_that_was_silent_left():
    trace = Trace().poll(0, THREE)
    for at in range(10, 130, 10):
        trace.poll(at, {**THREE, "c": SILENT})
    trace.poll(130, {"a": holding(0, 1), "b": holding(2)})
    trace.poll(150, TWO)
    assert [(r.trigger, r.trigger_client) for r in trace.rebalances()] == [("CLIENT_LEFT", "c")]


def test_a_client_on_two_channels_is_a_member_twice():
    """Seen in the lab after a thaw: the old channel stays for 120 to 130 s, and queues are left unassigned."""
    trace = Trace().poll(0, TWO)
    twice = {"a": holding(0), "b": holding(2)}
    trace.listed_twice = "a"
    trace.poll(10, TWO).poll(20, twice)
    assert {m.queue_id: q.expected_owner for m, q in trace.state.queues.items()} == {0: "a", 1: "a", 2: None, 3: "b"}
    trace.listed_twice = None
    trace.poll(30, twice).poll(40, TWO)
    assert [r.trigger for r in trace.rebalances()] == ["CONNECTIONS_CHANGED"]
    assert trace.owners() == {0: "a", 1: "a", 2: "b", 3: "b"}


def test_a_route_change_is_a_cause():
    trace = Trace().poll(0, TWO)
    trace.poll(10, TWO, route=6)
    trace.poll(20, {"a": holding(0, 1, 2), "b": holding(3, 4, 5)})
    [rebalance] = trace.rebalances()
    assert (rebalance.trigger, rebalance.causes) == ("ROUTE_CHANGED", ("ROUTE_CHANGED Orders",))
    assert rebalance.queues_moved == 3  # 2 from b to a; b takes 4 and 5 which had no owner; 3 stays
    assert [(m.queue.queue_id, m.from_client, m.to_client) for m in rebalance.moves] == [
        (2, "b", "a"),
        (4, None, "b"),
        (5, None, "b"),
    ]


def test_all_members_leave():
    trace = Trace().poll(0, TWO).poll(10, {})
    assert trace.owners() == dict.fromkeys(range(4))
    [rebalance] = trace.rebalances()
    assert (rebalance.members_after, rebalance.converged, rebalance.pause_ms_max) == ((), False, None)
    assert (rebalance.queues_moved, rebalance.queues_unassigned) == (0, 4)


def test_a_rebalance_that_never_meets_the_strategy_is_not_converged():
    trace = Trace().poll(0, TWO)
    for at in range(10, 200, 10):
        trace.poll(at, {**TWO, "c": holding()})  # b never gives queue 3 up
    [rebalance] = trace.rebalances()
    assert rebalance.converged is False
    assert rebalance.time - rebalance.end_time == 150_001


def test_two_pictures_of_one_round_do_not_make_a_queue_go_back_and_forth():
    """Both answers of the round hold queue 0. Whoever answers first, it goes over once."""
    old, new = {"b": holding(0, 1, 2, 3)}, {"a": holding(0, 1)}
    new_first = Trace().poll(0, old).poll(10, new | old).poll(20, TWO)
    assert [m for m in new_first.moves() if m[2] == 0][1:] == [(10, "RELEASED", 0, "b"), (10, "ASSIGNED", 0, "a")]
    old_first = Trace().poll(0, old).poll(10, old | new).poll(20, dict(reversed(TWO.items())))
    assert [m for m in old_first.moves() if m[2] == 0][1:] == [(20, "RELEASED", 0, "b"), (20, "ASSIGNED", 0, "a")]


def test_an_owner_that_is_silent_loses_the_queue_to_a_later_claim():
    trace = Trace().poll(0, TWO)
    trace.poll(10, {"a": SILENT, "b": holding(2, 3)})
    trace.poll(20, {"a": SILENT, "b": holding(0, 1, 2, 3)})
    assert trace.owners() == dict.fromkeys(range(4), "b")


def test_a_thawed_owner_does_not_regain_queues_locked_by_the_next_owner():
    trace = Trace().poll(0, TWO)
    trace.poll(10, {"a": SILENT, "b": holding(2, 3)})
    trace.poll(20, {"a": SILENT, "b": holding(0, 1, 2, 3)})
    trace.poll(30, {"a": holding(0, 1, lock_age=35), "b": holding(0, 1, 2, 3)})  # its old picture of itself
    assert trace.owners() == dict.fromkeys(range(4), "b")
    trace.poll(40, TWO)
    assert trace.owners() == {0: "a", 1: "a", 2: "b", 3: "b"}


def test_a_claim_with_a_lock_beats_one_without():
    trace = Trace().poll(0, {"a": Member((Held(0, locked=False),)), "b": holding(1, 2, 3)})
    trace.poll(10, {"a": Member((Held(0, locked=False),)), "b": holding(0, 1, 2, 3)})
    assert trace.owners()[0] == "b"


def test_a_client_that_restarted_between_two_polls_is_a_cause():
    trace = Trace().poll(0, TWO)
    trace.poll(10, {"a": Member((Held(0), Held(1)), start_time=2), "b": holding(2, 3)})
    trace.poll(20, TWO | {"a": Member((Held(0), Held(1)), start_time=2)})
    assert [r.trigger for r in trace.rebalances()] == ["CLIENT_RESTARTED"]


@pytest.mark.parametrize("unknown", [0, None])
def test_a_start_time_that_was_unknown_is_no_restart(unknown):
    trace = Trace()
    for at, start_time in ((0, unknown), (10, 7), (20, unknown), (30, 7)):
        trace.poll(at, TWO | {"a": Member((Held(0), Held(1)), start_time=start_time)})
    assert "CLIENT_RESTARTED" not in [r.trigger for r in trace.rebalances()]


def test_an_answer_older_than_what_is_known_changes_nothing():
    trace = Trace().poll(0, TWO).poll(20, TWO)
    before = trace.owners()
    trace._fold(trace._answer("b", holding(0, 1, 2, 3), 1_800_000_010_000))
    assert trace.owners() == before


def test_an_event_that_comes_twice_is_folded_once():
    trace = Trace().poll(0, TWO).poll(10, THREE)
    count = len(trace.effects)
    for event in list(trace.events):
        trace._fold(event)
    assert len(trace.effects) == count


def test_a_second_collector_is_followed_only_when_the_first_is_silent():
    trace = Trace().poll(0, TWO)
    trace.source_id, trace.seq = "poll-2@5", 0
    trace.poll(1, THREE)
    trace.poll(15, THREE)
    assert trace.state.members == ("a", "b")  # it is not silent: a round may begin late
    trace.poll(15.001, THREE)
    assert trace.state.members == ("a", "b", "c")


def test_a_collector_that_gets_a_group_is_followed_from_its_second_round():
    trace = Trace().poll(0, TWO).poll(10, TWO)
    trace.source_id, trace.seq = "poll-2@5", 0
    trace.poll(20, THREE)
    assert trace.state.members == ("a", "b")
    trace.poll(30, THREE)
    assert (trace.state.members, trace.state.collector) == (("a", "b", "c"), "c/poll-2")


def test_members_that_declare_different_strategies_settle_on_quiet():
    circle = Member((Held(2), Held(3)), strategy="AllocateMessageQueueAveragelyByCircle")
    trace = Trace().poll(0, {"a": holding(0, 1), "b": circle})
    trace.poll(10, {"a": holding(0, 1), "b": circle, "c": holding()})
    trace.poll(50, {"a": holding(0, 1), "b": circle, "c": holding()})
    assert [(r.trigger, r.converged, r.time - r.end_time) for r in trace.rebalances()] == [
        ("CLIENT_JOINED", None, 30_001)
    ]


def test_broadcasting_members_own_nothing():
    trace = Trace().poll(0, {})
    trace._connections = lambda members, now: _broadcasting(Trace._connections(trace, members, now))
    trace.poll(10, TWO)
    assert trace.moves() == []
    assert {q.expected_owner for q in trace.state.queues.values()} == {None}


def _broadcasting(event: ConsumerConnection) -> ConsumerConnection:
    return msgspec.structs.replace(event, message_model="BROADCASTING")
