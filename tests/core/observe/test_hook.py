"""Reports of brokers' hooks about a group, call by call: members, locks, holders, and gaps."""

import pytest

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.state import decode_group, encode_group
from tests.support.hook_groups import LOCK_LIVES, concurrent, concurrently, expiries, ordered
from tests.support.hook_trace import A, B, HookTrace
from tests.support.trace import SILENT, START, holding, mq

# The broker itself


def test_a_broker_that_restarts_has_no_lock_and_its_members_come_back():
    trace = ordered().boots(10)
    assert (trace.channels(), trace.lock_table()) == ({}, {})
    assert trace.state.members == ("a", "b")
    assert trace.state.episode.causes[-1] == "BROKER_RESTARTED broker-a"
    trace.heart_beat(15, "a").passes(45)
    assert trace.state.members == ("a",)
    assert trace.view().expected_back_until == {}
    assert trace.owners() == {0: "a", 1: "a", 2: None, 3: None}


def test_after_a_restart_offsets_are_unknown_until_the_next_commit():
    trace = ordered().commits(5, "a", 0, 50).commits(6, "a", 1, 7)
    trace.pulls(7, "a", 1, commit=9).pulls(8, "a", 1, commit=11, code=1).commits(8, "a", 0, 51, code=1)
    known = {mq.queue_id: queue.hook_view.commit_offset for mq, queue in trace.state.queues.items()}
    assert known == {0: 50, 1: 9, 2: -1, 3: -1}
    trace.boots(10)
    assert {queue.hook_view.commit_offset for queue in trace.state.queues.values()} == {-1}


def test_a_restart_shows_in_any_first_event_of_the_new_incarnation():
    trace = ordered()
    trace.boot[A], trace.hook_seq[f"{A}-0"] = trace.clock(10), 5
    trace.heart_beat(15, "a")
    assert trace.channels() == {"a:0": "a"}
    assert trace.lock_table() == {}
    assert trace.state.members == ("a", "b")


def test_a_restart_of_a_broker_without_the_group_is_ignored():
    assert HookTrace().boots(0).effects == []
    polled = HookTrace().poll(0, {"a": holding(0)})
    count = len(polled.effects)
    assert len(polled.boots(5).boots(9).effects) == count


def test_repeated_or_late_events_count_once():
    trace = ordered()
    count, blob = len(trace.effects), encode_group(trace.state)
    for event in list(trace.events):
        trace._fold(event)
    assert len(trace.effects) == count
    assert encode_group(trace.state) == blob
    old = trace.boots(10).events[0]
    trace._fold(old)  # of the incarnation before
    assert trace.channels() == {}


def test_a_gap_is_recorded_and_the_known_state_is_kept():
    trace = ordered()
    since = trace.view().covered_since
    trace.hook_seq[f"{A}-0"] += 3
    trace.heart_beat(30, "a")
    assert (since, trace.view().covered_since) == (trace.clock(0), trace.clock(30))
    assert trace.owners() == {0: "a", 1: "a", 2: "b", 3: "b"}


def test_a_pull_from_a_slave_shows_that_a_concurrent_owner_has_begun():
    trace = concurrent().asks(12, "b", 0).of(A, 1).pulls(13, "b", 0).of(A)
    assert trace.owners()[0] == "b"
    count = trace.state.queues[trace._mqs((0,))[0]].hook_view
    assert count is not None
    assert count.begun_at == trace.clock(13)


def test_events_of_a_slaves_hook_are_only_archived():
    trace = ordered().of(A, 1).heart_beat(5, "c").locks(6, "c", 0)
    assert trace.state.members == ("a", "b")
    assert trace.owners()[0] == "a"


# Several brokers


def test_a_member_known_to_one_broker_only_is_a_member():
    trace = ordered().of(B).heart_beat(2, "a", "c").locks(3, "c", 0)
    assert trace.state.members == ("a", "b", "c")
    assert {mq.broker: queue.owner for mq, queue in trace.state.queues.items() if mq.queue_id == 0} == {A: "a", B: "c"}
    trace.of(A).lists(10, "b")  # a is still b's other broker's
    assert trace.state.members == ("a", "b", "c")
    trace.of(B).lists(11, "c")
    assert trace.state.members == ("b", "c")


def test_each_broker_counts_its_own_heartbeats():
    """a is silent to broker-b alone, which drops it; its heartbeats to broker-a keep it a member."""
    trace = HookTrace().of(B).heart_beat(0, "a").of(A).heart_beat(0, "a", "b")
    trace.of(A).heart_beat(100, "a", "b").of(B).passes(129)
    assert trace.channels() == {"a:0": "a"}
    trace.passes(131)
    assert trace.channels() == {}
    trace.of(A)
    assert trace.channels() == {"a:0": "a", "b:0": "b"}
    assert trace.state.members == ("a", "b")


# What is wrong


def test_a_lock_expires_by_the_brokers_clock_to_the_millisecond():
    trace = ordered()
    for at in range(2, 28, 5):
        trace.passes(at)
    trace.locks(25, "b", 2, 3).passes(1 + LOCK_LIVES)
    assert expiries(trace) == []
    trace.passes(40)
    opened = 1 + LOCK_LIVES + 0.001
    off = (trace.clock(0) - START) / 1000
    assert expiries(trace) == [(off + opened, "OPENED", "LOCK_EXPIRED")] * 2
    trace.locks(41, "a", 1).passes(1 + 2 * LOCK_LIVES).passes(62)
    changes = [one for one in expiries(trace) if one[1] != "DEESCALATED"]  # a stale heartbeat explains it
    assert changes[2:] == [
        (off + 41, "RESOLVED", "LOCK_EXPIRED"),
        (off + 25 + LOCK_LIVES + 0.001, "OPENED", "LOCK_EXPIRED"),
        (off + 25 + LOCK_LIVES + 0.001, "OPENED", "LOCK_EXPIRED"),
        (off + 1 + 2 * LOCK_LIVES + 0.001, "ESCALATED", "LOCK_EXPIRED"),
    ]
    trace.locks(63, "a", 0).locks(64, "b", 2, 3)
    changes = [one for one in expiries(trace) if one[1] != "DEESCALATED"]
    assert changes[6:] == [
        (off + 63, "RESOLVED", "LOCK_EXPIRED"),
        (off + 64, "RESOLVED", "LOCK_EXPIRED"),
        (off + 64, "RESOLVED", "LOCK_EXPIRED"),
    ]


def test_a_lock_that_is_renewed_in_time_never_expires():
    trace = ordered()
    for at in range(20, 200, 20):
        trace.heart_beat(at, "a", "b").locks(at, "a", 0, 1).locks(at, "b", 2, 3).passes(at + 19)
    assert expiries(trace) == []


def test_an_owner_that_died_stuck_is_known_by_its_remaining_lock():
    """Beside the hook's locks the poll shows the lag: the queue has no owner; another client has its lock for 60 s."""
    two = {"a": holding(0, 1), "b": holding(2, 3)}
    trace = HookTrace().heart_beat(0, "a", "b").locks(0, "a", 0, 1).locks(0, "b", 2, 3)
    for at in range(0, 70, 10):
        trace.locks(at, "a", 0, 1).locks(at, "b", 2, 3).heart_beat(at, "a", "b").poll(at, two, {0: (100 + at, 50)})
        trace.passes(at + 5)
    trace.lists(65, "b")
    for at in (70, 80, 90, 100, 110, 130):
        trace.locks(at, "b", 2, 3).heart_beat(at, "b").passes(at)
        trace.poll(at, {"b": holding(2, 3)}, {0: (100 + at, 50)})
    stuck = [(at, how, what) for at, how, what in trace.incidents() if "STUCK" in what]
    assert [what for _, _, what in stuck][-2:] == [
        "ORDERED_QUEUE_STUCK OWNER_GONE_LOCK_HELD",
        "ORDERED_QUEUE_STUCK UNASSIGNED",
    ]


# Hook and poll


def test_a_pull_of_what_has_waited_ends_no_stall_and_a_commit_does():
    """Healed, a client that was cut off pulls at once; only later it commits."""
    two = {"a": holding(0, 1), "b": holding(2, 3)}
    trace = ordered().pulls(1, "a", 0, offset=50, commit=50).poll(2, two, {0: (50, 50)})
    for at in range(10, 110, 10):
        trace.heart_beat(at, "a", "b").locks(at, "a", 0, 1).locks(at, "b", 2, 3).poll(at, two, {0: (60 + at, 50)})
    trace.tick(104).pulls(105, "a", 0, offset=130).passes(106)
    trace.poll(110, two, {0: (170, 50)})
    assert [how for _, how, what in trace.incidents() if "STUCK" in what] == ["OPENED"]
    trace.tick(111).pulls(112, "a", 0, offset=160, commit=130)
    assert [how for _, how, what in trace.incidents() if "STUCK" in what] == ["OPENED", "RESOLVED"]


@pytest.mark.parametrize(("pulls", "expired"), [(True, []), (False, [0, 1])])
def test_a_client_that_does_not_answer_and_pulls_has_not_stopped_pulling(pulls, expired):
    """A client that was cut off stands twice in the broker's list, and the broker asks it over the dead channel."""
    trace = ordered().pulls(1, "a", 0, 1).poll(2, {"a": holding(0, 1), "b": holding(2, 3)})
    for at in range(10, 200, 10):
        trace.heart_beat(at, "a", "b").locks(at, "a", 0, 1).locks(at, "b", 2, 3).pulls(at, "b", 2, 3)
        trace.poll(at, {"a": SILENT, "b": holding(2, 3)})
        if pulls:
            trace.pulls(at, "a", 0, 1)
    count = [effect for effect in trace.effects if isinstance(effect, IncidentTransition)]
    assert [one.queue_id for one in count if one.code == "PULL_EXPIRED"] == expired


def test_a_queue_that_its_holder_denies_in_an_answer_is_not_its_own():
    """a takes queue 2 for a moment and drops it without a word; b, which pulls it as ever, answers before a does."""
    members = {"b": concurrently(2, 3), "a": concurrently(0, 1)}
    trace = concurrent().poll(2, members).tick(4).asks(5, "a", 2)
    assert trace.owners()[2] == "a"
    trace.poll(12, members)
    assert trace.owners()[2] == "b"


def test_an_answer_older_than_the_hooks_last_report_is_older_evidence():
    trace = ordered().poll(5, {"a": holding(0, 1), "b": holding(2, 3)})
    trace.tick(60).locks(70, "b", 0, 1, 2, 3)
    old = trace._answer("a", holding(0, 1), START + 5_000)
    trace._fold(old)
    assert trace.owners() == dict.fromkeys(range(4), "b")


def test_while_the_followed_collector_is_silent_the_group_follows_the_hook():
    two = {"a": holding(0, 1), "b": holding(2, 3)}
    trace = HookTrace().poll(0, two).heart_beat(0, "a", "b").locks(1, "a", 0, 1).locks(1, "b", 2, 3)
    trace.poll(10, two | {"b": SILENT})
    assert trace.state.is_polled
    for at in range(12, 62, 10):
        trace.locks(at, "a", 0, 1).locks(at, "b", 2, 3).heart_beat(at, "a", "b").passes(at)
        if at == 22:
            trace.falls_silent(26, "c/poll-1")
    assert not trace.state.is_polled
    assert {c.unanswered for c in trace.state.clients.values()} == {0}
    trace.is_back(70, "c/poll-1").poll(70, two)
    assert trace.state.is_polled
    assert trace.owners() == {0: "a", 1: "a", 2: "b", 3: "b"}
    assert {what for _, _, what in trace.incidents()} == {"TELEMETRY_GAP POLL_SILENT"}
    assert decode_group(encode_group(trace.state)) == trace.state


def test_values_of_a_silent_hook_do_not_age():
    """Its holder answers nothing; polls go on, and by them alone nothing is known of its pulls."""
    trace = HookTrace().heart_beat(0, "a").asks(0.1, "a", 0).pulls(1, "a", 0)
    trace.falls_silent(16, trace.view().source)
    for at in range(20, 200, 10):
        trace.poll(at, {"a": SILENT})
    assert trace.state.queues[mq(0)].owner == "a"
    assert trace.incidents("PULL_EXPIRED") == []
