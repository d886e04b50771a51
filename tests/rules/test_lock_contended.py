"""LOCK_CONTENDED: a lock that a live member denies to another (#8772)."""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import LockBatchMq
from tests.support.hook_trace import A, HookTrace
from tests.support.incident_rows import distinct_transitions, evidence
from tests.support.lock_traces import ordered
from tests.support.trace import holding


def refused(trace: HookTrace, begin: float, end: float) -> HookTrace:
    """b asks for 0 every 10 s in vain, while a renews."""
    at = begin
    while at <= end:
        trace.locks(at, "b", 0, 2, 3, granted=(2, 3)).locks(at + 0.01, "a", 0, 1)
        trace.heart_beat(at + 0.02, "a", "b")
        at += 10
    return trace


def test_a_lock_that_a_live_member_denies_to_another_is_contended():
    trace = refused(ordered(), 10, 60)
    assert trace.incidents() == []  # six times over 50.0 s is a near miss
    trace.locks(60.1, "b", 0, granted=()).locks(71, "a", 0, 1).heart_beat(80, "a", "b").passes(81)
    trace.locks(91, "a", 0, 1).locks(91, "b", 2, 3).heart_beat(110, "a", "b").passes(141)
    assert distinct_transitions(trace, "LOCK_CONTENDED") == [
        (60.1, "OPENED", "LOCK_CONTENDED REFUSED"),
        (140.101, "RESOLVED", "LOCK_CONTENDED REFUSED"),  # asked for no more for 20 s, and 60 s clear
    ]
    assert evidence(trace, "LOCK_CONTENDED")[0]["asking_ms"] == 50_100


def test_a_client_that_sees_a_new_route_late_contends_nothing():
    """A topic that loses queues: each asks for its route every 30 s, and keeps its queues until its next turn."""
    assert refused(ordered(), 10, 40).incidents("LOCK_CONTENDED") == []


def test_six_lock_requests_of_a_thawed_client_are_no_contention():
    trace = ordered()
    for n in range(6):
        trace.locks(30 + n * 0.0026, "b", 0, granted=())
    assert trace.locks(90, "a", 0, 1).incidents("LOCK_CONTENDED") == []


def test_a_queue_that_a_lock_request_names_twice_is_handed_over_once():
    trace = ordered().locks(30, "b", 0, 0)
    handovers = trace.state.queues[MessageQueue("Orders", A, 0)].hook_view.lock_handovers
    assert [client for client, *_ in handovers] == ["a", "b"]


def test_a_lock_request_after_45_s_restarts_the_time():
    trace = ordered().locks(10, "b", 0, granted=()).locks(12, "b", 0, granted=())
    trace.locks(57.1, "b", 0, granted=()).locks(58, "b", 0, granted=())
    assert trace.incidents("LOCK_CONTENDED") == []


def test_a_lock_that_alternates_between_two_members_is_contended():
    trace = ordered().unlocks(10, "a", 0).locks(11, "b", 0).unlocks(20, "b", 0).locks(21, "a", 0).unlocks(30, "a", 0)
    assert trace.incidents() == []
    trace.locks(31, "b", 0).heart_beat(31, "a", "b").locks(50, "a", 1).passes(62)
    assert distinct_transitions(trace, "LOCK_CONTENDED") == [(31, "OPENED", "LOCK_CONTENDED ALTERNATING")]
    assert evidence(trace, "LOCK_CONTENDED")[0]["taken_by"] == "a, b, a, b"
    trace.heart_beat(62, "a", "b").passes(121.002)
    assert distinct_transitions(trace, "LOCK_CONTENDED")[1:] == [(121.001, "RESOLVED", "LOCK_CONTENDED ALTERNATING")]


def test_a_queue_that_moves_back_and_forth_in_a_rollout_is_not_contended():
    trace = ordered().unlocks(10, "a", 0).locks(11, "b", 0).heart_beat(12, "c").unlocks(20, "b", 0).locks(21, "a", 0)
    trace.leaves(25, "c").unlocks(30, "a", 0).locks(31, "b", 0)
    assert trace.incidents("LOCK_CONTENDED") == []


def test_only_the_last_of_many_requesting_clients_are_kept():
    trace = ordered()
    for n in range(12):
        trace.locks(10 + n, f"asks-{n}", 0, granted=())
    [mq] = [mq for mq in trace.state.queues if mq.queue_id == 0]
    assert list(trace.state.queues[mq].hook_view.refusals) == [f"asks-{n}" for n in range(4, 12)]


def test_contention_is_not_judged_while_the_hook_is_silent():
    trace = HookTrace().poll(0, {"a": holding(0, 1), "b": holding(2, 3)})
    trace.heart_beat(0.5, "a", "b").locks(1, "a", 0, 1).locks(1, "b", 2, 3)
    for at in range(10, 70, 10):
        trace.poll(at, {"a": holding(0, 1), "b": holding(2, 3)})
        trace.locks(at + 1, "b", 0, granted=()).locks(at + 1, "a", 0, 1).heart_beat(at + 1, "a", "b")
    trace.locks(62, "b", 0, granted=()).falls_silent(78, trace.view().source)
    for at in range(80, 210, 10):
        trace.poll(at, {"a": holding(0, 1), "b": holding(2, 3)})
    assert trace.incidents("LOCK_CONTENDED") == [(62, "OPENED", "LOCK_CONTENDED REFUSED")]


def test_the_locks_of_retry_queues_are_ignored():
    """They are implicit and locked like any other; a stuck retry queue is another matter."""
    retry = (MessageQueue("%RETRY%g", A, 0),)
    trace = HookTrace().boots(0).heart_beat(1, "a", "b")
    trace._emit(2, LockBatchMq, client_id="a", channel="a:0", requested=retry, granted=retry)
    for at in (3, 6, 9, 12):
        trace._emit(at, LockBatchMq, client_id="b", channel="b:0", requested=retry, granted=())
    trace.lists(13, "b")
    trace._emit(14, LockBatchMq, client_id="b", channel="b:0", requested=retry, granted=())
    trace.boots(20)
    assert trace.incidents() == []
