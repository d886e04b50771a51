"""ORDERED_QUEUE_STUCK by the hook alone (hung client; 7.9: ali#459)."""

import pytest

from rebalance_model.observe.effects import IncidentTransition
from tests.support.hook_trace import HookTrace
from tests.support.incident_rows import evidence, transitions_of
from tests.support.trace import holding


def working(until: int) -> HookTrace:
    """a commits 7 at 5 with 9 pulled, then heartbeats and renews, and commits the same again."""
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0).pulls(2, "a", 0, offset=7)
    trace.commits(5, "a", 0, 7).pulls(6, "a", 0, offset=9)
    for at in range(20, until, 20):
        trace.passes(at).heart_beat(at, "a", "b").locks(at, "a", 0).commits(at, "a", 0, 7)
    return trace


def test_a_blocked_listener_is_stuck_past_60_s_until_a_commit():
    trace = working(80).passes(66)
    assert trace.incidents() == []  # what waits was pulled at 6
    trace.passes(70).commits(80, "a", 0, 8)
    assert transitions_of(trace, "ORDERED_QUEUE_STUCK") == [
        (66.001, "OPENED", "ORDERED_QUEUE_STUCK LISTENER_BLOCKED"),
        (80, "RESOLVED", "ORDERED_QUEUE_STUCK LISTENER_BLOCKED"),
    ]
    assert evidence(trace, "ORDERED_QUEUE_STUCK")[0]["lag_at_least"] == 2


def test_a_commit_in_time_is_a_near_miss():
    trace = working(60).commits(65, "a", 0, 8).passes(125)
    assert trace.incidents("ORDERED_QUEUE_STUCK") == []


def test_a_queue_pulled_again_at_its_commit_has_nothing_waiting():
    trace = HookTrace().heart_beat(0, "a").locks(1, "a", 0).commits(5, "a", 0, 9)
    for at in range(6, 200, 14):
        trace.passes(at).heart_beat(at, "a").locks(at, "a", 0).pulls(at, "a", 0, offset=9)
    assert trace.incidents("ORDERED_QUEUE_STUCK") == []


def test_a_new_owners_first_pull_does_not_prove_that_nothing_waits():
    trace = working(60).unlocks(61, "a", 0).locks(62, "b", 0).asks(62, "b", 0).pulls(63, "b", 0, offset=7).passes(67)
    assert transitions_of(trace, "ORDERED_QUEUE_STUCK") == [(66.001, "OPENED", "ORDERED_QUEUE_STUCK UNDETERMINED")]
    trace.heart_beat(67, "b").locks(67, "b", 0).pulls(78, "b", 0, offset=7)  # a second one is
    assert transitions_of(trace, "ORDERED_QUEUE_STUCK")[1:] == [(78, "RESOLVED", "ORDERED_QUEUE_STUCK UNDETERMINED")]


def frozen() -> HookTrace:
    """As on a real cluster: SIGSTOP of a at 305."""
    trace = HookTrace().heart_beat(277.1, "a", "b").locks(287.1, "a", 0).pulls(304, "a", 0, offset=361)
    trace.commits(304.9, "a", 0, 361)
    for at in range(306, 424, 10):
        trace.passes(at).heart_beat(at, "b")
    return trace


def test_a_frozen_owner_until_its_queue_has_a_new_owner():
    trace = frozen().lists(423.3, "b").locks(423.4, "b", 0).asks(423.4, "b", 0).pulls(424, "b", 0, offset=361)
    trace.commits(426, "b", 0, 380)
    assert transitions_of(trace) == [
        (317.101, "OPENED", "LOCK_EXPIRED"),
        (337.101, "OPENED", "STALE_HEARTBEAT"),
        (337.101, "DEESCALATED", "LOCK_EXPIRED"),  # it is explained by it
        (347.101, "ESCALATED", "LOCK_EXPIRED"),
        (347.102, "ESCALATED", "STALE_HEARTBEAT"),
        (364.901, "OPENED", "ORDERED_QUEUE_STUCK OWNER_UNRESPONSIVE"),
        (407.101, "RESOLVED", "LOCK_EXPIRED"),  # dropped by the broker's scan, 120 to 130 s after its heartbeat
        (407.101, "RECLASSIFIED", "ORDERED_QUEUE_STUCK UNASSIGNED"),
        (426, "RESOLVED", "ORDERED_QUEUE_STUCK UNASSIGNED"),
        (426, "RESOLVED", "STALE_HEARTBEAT"),  # its last consequence has recovered
    ]
    rows = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "ORDERED_QUEUE_STUCK"]
    stuck, unassigned, resolved = rows
    assert stuck.severity == "warning"  # no client pulls: whether anything waits is unknown
    assert resolved.main_cause == "OWNER_UNRESPONSIVE"
    assert resolved.first_step == stuck.first_step != unassigned.first_step
    assert evidence(trace, "ORDERED_QUEUE_STUCK")[0]["lag_at_least"] is None


def test_a_queue_idle_for_5_minutes_raises_nothing_when_its_owner_goes():
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0).commits(2, "a", 0, 7)
    for at in range(10, 320, 10):
        trace.passes(at).heart_beat(at, "a", "b").locks(at, "a", 0).pulls(at, "a", 0, offset=7)
    trace.leaves(321, "a").passes(400)
    assert trace.incidents("ORDERED_QUEUE_STUCK") == []


def test_a_client_that_renews_and_never_pulls_opens_nothing():
    trace = HookTrace().heart_beat(0, "a").locks(1, "a", 0).pulls(2, "a", 0, offset=7).commits(5, "a", 0, 9)
    for at in range(20, 110, 20):
        trace.passes(at).heart_beat(at, "a").locks(at, "a", 0)
    assert trace.incidents("ORDERED_QUEUE_STUCK") == []


@pytest.mark.parametrize(
    ("how", "sub_cause"),
    [
        (lambda t: t.locks(61, "a", 0, granted=()), "NOT_LOCKED"),
        (lambda t: t, "LOCK_EXPIRED"),
    ],
)
def test_a_stuck_queues_lock_precedes_its_listener_as_the_cause(how, sub_cause):
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0).pulls(2, "a", 0, offset=7).commits(5, "a", 0, 7)
    trace.pulls(6, "a", 0, offset=9).locks(20, "a", 0).heart_beat(50, "a", "b")
    how(trace).passes(67)
    assert transitions_of(trace, "ORDERED_QUEUE_STUCK") == [(66.001, "OPENED", f"ORDERED_QUEUE_STUCK {sub_cause}")]


@pytest.mark.parametrize(("pulled", "lag", "at_least"), [(9, 3, None), (15, None, 8)])
def test_evidence_has_one_lag_that_of_the_source_that_has_seen_more(pulled, lag, at_least):
    trace = HookTrace()
    for at in range(0, 70, 10):
        trace.poll(at, {"a": holding(0)}, {0: (10, 7)})
        trace.heart_beat(at + 1, "a").locks(at + 1, "a", 0).commits(at + 2, "a", 0, 7)
        trace.pulls(at + 3, "a", 0, offset=pulled)
    found = evidence(trace.passes(75), "ORDERED_QUEUE_STUCK")[0]
    assert (found["lag"], found["lag_at_least"], found["broker_offset"]) == (lag, at_least, 10 if lag else None)


def test_refused_pulls_stay_the_cause_after_the_owner_was_dropped():
    """The broker registers no heartbeat of a any more and drops it at 130; a goes on to pull and to renew its lock."""
    trace = HookTrace().heart_beat(0, "a").locks(1, "a", 0).pulls(2, "a", 0, offset=9).commits(5, "a", 0, 7)
    for at in range(10, 200, 3):
        trace.passes(at).locks(at, "a", 0).pulls(at, "a", 0, offset=9, code=24)
    assert trace.state.members == ()
    assert [name for _, _, name in transitions_of(trace, "ORDERED_QUEUE_STUCK")] == ["ORDERED_QUEUE_STUCK PULL_REFUSED"]


@pytest.mark.parametrize("then", [131, 150])
def test_the_hooks_commit_and_the_answered_newest_offset_tell_at_60_s(then):
    """By answers alone it would be 10 s later, and its end would wait for the next one."""
    trace = HookTrace()
    for at in range(0, 100, 10):
        trace.poll(at, {"a": holding(0)}, {0: (150, 100 if at < 30 else 130)})
        trace.heart_beat(at + 1, "a").locks(at + 1, "a", 0).commits(at + 2, "a", 0, 100 if at < 20 else 130)
        trace.pulls(at + 3, "a", 0, offset=130)
    trace.commits(93, "a", 0, then)
    assert [one[:2] for one in transitions_of(trace, "ORDERED_QUEUE_STUCK")] == [(82.001, "OPENED"), (93, "RESOLVED")]
    assert evidence(trace, "ORDERED_QUEUE_STUCK")[0]["lag"] == 20


def test_an_answered_commit_that_the_hook_has_not_seen_proves_no_wait():
    trace = HookTrace()
    for at in range(0, 100, 10):
        trace.poll(at, {"a": holding(0)}, {0: (150, 100 + at)})
        trace.heart_beat(at + 1, "a").locks(at + 1, "a", 0)
        if at == 0:
            trace.commits(2, "a", 0, 100)
    assert trace.incidents("ORDERED_QUEUE_STUCK") == []


def test_a_new_owner_that_has_the_lock_and_never_takes_the_queue():
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0).asks(1, "a", 0).pulls(2, "a", 0, offset=9)
    trace.commits(5, "a", 0, 7).unlocks(6, "a", 0)
    for at in range(7, 90, 10):
        trace.heart_beat(at, "a", "b").locks(at, "b", 0)
    assert [what for _, _, what in trace.incidents("ORDERED_QUEUE_STUCK")] == ["ORDERED_QUEUE_STUCK NOT_TAKEN"]
