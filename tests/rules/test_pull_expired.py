"""PULL_EXPIRED by the hook alone (#653)."""

import pytest

from rebalance_model.observe.effects import IncidentTransition
from tests.support.hook_trace import A, HookTrace
from tests.support.incident_rows import distinct_transitions
from tests.support.trace import SILENT, Held, Member, Trace, holding


def pulling(**pulled: int) -> HookTrace:
    """a pulls queue 0 at 2, heartbeats and renews."""
    trace = HookTrace().heart_beat(0, "a").locks(1, "a", 0).commits(2, "a", 0, 7).pulls(2, "a", 0, **pulled)
    for at in range(20, 121, 20):
        trace.heart_beat(at, "a").locks(at, "a", 0)
    return trace


def test_a_pull_expires_past_120_s_of_the_brokers_clock_until_the_next():
    trace = pulling(offset=7).passes(122)
    assert trace.incidents("PULL_EXPIRED") == []
    trace.passes(122.002).pulls(123, "a", 0, offset=7)
    assert distinct_transitions(trace, "PULL_EXPIRED") == [
        (122.001, "OPENED", "PULL_EXPIRED"),
        (123, "RESOLVED", "PULL_EXPIRED"),
    ]


@pytest.mark.parametrize(
    ("offset", "fires"),
    [
        (7 + 967, True),
        (7 + 968, False),  # with the last pull's 32 that is 1000 in its cache: flow control sends no pull
        (7, True),
        (0, True),
    ],
)
def test_the_pulls_of_a_client_under_flow_control_do_not_expire(offset, fires):
    trace = pulling(offset=offset).passes(130)
    assert bool(trace.incidents("PULL_EXPIRED")) is fires


def test_a_queue_committed_beyond_its_masters_pulls_is_served_by_a_slave():
    trace = pulling(offset=7).commits(100, "a", 0, 40).passes(130)
    assert trace.incidents("PULL_EXPIRED") == []


def test_pulls_reported_by_the_slaves_hook_count():
    trace = pulling(offset=7).of(A, 1).pulls(100, "a", 0, 9, offset=7).heart_beat(101, "a").of(A).passes(130)
    assert trace.incidents("PULL_EXPIRED") == []


def test_a_queue_that_was_taken_and_never_pulled_expires_too():
    trace = HookTrace().heart_beat(0, "a").locks(1, "a", 0)
    for at in range(20, 121, 20):
        trace.heart_beat(at, "a").locks(at, "a", 0)
    assert distinct_transitions(trace.passes(122), "PULL_EXPIRED") == [(121.001, "OPENED", "PULL_EXPIRED")]


@pytest.mark.parametrize("reason", ["pulls itself", "no lock"])
def test_pulls_do_not_expire_if_the_client_need_not_pull(reason):
    kind = "CONSUME_ACTIVELY" if reason == "pulls itself" else "CONSUME_PASSIVELY"
    trace = HookTrace().heart_beat(0, "a", consume_type=kind).locks(1, "a", 0).pulls(2, "a", 0)
    for at in range(20, 200, 20):
        trace.heart_beat(at, "a", consume_type=kind)
        trace.locks(at, "a", 0, granted=(0,) if reason == "pulls itself" else ())
    assert trace.incidents("PULL_EXPIRED") == []


def test_polls_beside_a_hook_add_no_second_incident():
    """A frozen owner, seen by both: one incident of each kind and queue."""
    trace = HookTrace()
    trace.poll(0, {"a": holding(0, 1), "b": holding(2, 3)})
    trace.heart_beat(0.5, "a", "b").locks(1, "a", 0, 1).locks(1, "b", 2, 3)
    for at in range(10, 120, 10):
        frozen = Member(tuple(Held(q) for q in (0, 1))) if at < 20 else SILENT
        trace.poll(at, {"a": frozen, "b": holding(2, 3)}, {0: (150 + at, 110)})
        trace.heart_beat(at + 1, "b").locks(at + 1, "b", 2, 3)
    opened = [
        (code, s) for code, s in _opened(trace) if code in ("LOCK_EXPIRED", "STALE_HEARTBEAT", "ORDERED_QUEUE_STUCK")
    ]
    assert len(opened) == len(set(opened)) == 4


def _opened(trace: Trace) -> list[tuple[str, str]]:
    effects = [e for e in trace.effects if isinstance(e, IncidentTransition)]
    return [(e.code, e.subject) for e in effects if e.transition == "OPENED"]


def test_it_ends_when_its_client_could_have_taken_the_queue_again():
    trace = Trace().poll(10, {"a": holding(0, pull_age=500)}).poll(20, {"a": holding()}).tick(60)
    assert distinct_transitions(trace, "PULL_EXPIRED") == [
        (10, "OPENED", "PULL_EXPIRED"),
        (40.001, "RESOLVED", "PULL_EXPIRED"),
    ]
