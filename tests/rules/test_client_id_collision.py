"""CLIENT_ID_COLLISION: two processes with one client id (#667, #1547, #2760, #3480)."""

import pytest

from tests.support.hook_trace import HookTrace
from tests.support.incident_rows import distinct_transitions, evidence
from tests.support.trace import Trace, holding


def test_heartbeats_of_one_id_on_alternating_channels_are_two_processes():
    trace = HookTrace().heart_beat(0, "a").heart_beat(10, "a", number=1).heart_beat(30, "a")
    assert trace.incidents() == []
    trace.heart_beat(40, "a", number=1)
    assert distinct_transitions(trace) == [(40, "OPENED", "CLIENT_ID_COLLISION")]
    assert evidence(trace, "CLIENT_ID_COLLISION") == [{"channels": "a:0, a:1", "count": 2}]


@pytest.mark.parametrize(
    ("how", "ends"),
    [
        (lambda t: t.leaves(50, "a", number=1), 50),  # by its own unregistration
        (lambda t: t.heart_beat(60, "a").heart_beat(90, "a").passes(101), 100.001),  # two intervals without one
    ],
)
def test_a_collision_ends_when_one_channel_is_left(how, ends):
    trace = HookTrace().heart_beat(0, "a").heart_beat(10, "a", number=1).heart_beat(30, "a")
    how(trace.heart_beat(40, "a", number=1))
    trace.heart_beat(101, "a")
    assert distinct_transitions(trace, "CLIENT_ID_COLLISION")[1:] == [(ends, "RESOLVED", "CLIENT_ID_COLLISION")]


def test_a_thawed_client_on_two_new_channels_is_one_process():
    trace = HookTrace().heart_beat(0, "a")
    for n, number in enumerate((1, 2, 1, 2, 1)):
        trace.heart_beat(100 + n / 1000, "a", number=number)
    for at in (130, 160, 190, 220):
        trace.heart_beat(at, "a", number=1)
    assert trace.incidents("CLIENT_ID_COLLISION") == []


def test_an_unseen_unregistration_is_no_second_process():
    trace = HookTrace().heart_beat(0, "a").leaves(1, "b").heart_beat(2, "a", number=1).leaves(3, "a")
    assert list(trace.view().heartbeats) == ["a"]


def test_a_client_that_continues_on_a_new_channel_is_one_process():
    trace = HookTrace().heart_beat(0, "a").heart_beat(30, "a")
    for at in (31, 61, 91):
        trace.heart_beat(at, "a", number=1)
    assert trace.incidents("CLIENT_ID_COLLISION") == []


def test_a_client_that_reconnects_for_each_heartbeat_is_one_process():
    trace = HookTrace()
    for n in range(12):
        trace.heart_beat(7 * n, "a", number=n)
    assert trace.incidents("CLIENT_ID_COLLISION") == []
    assert len(trace.view().heartbeats["a"].channels) == 4


@pytest.mark.parametrize(("until", "expected"), [(140, []), (150, [(150, "OPENED", "CLIENT_ID_COLLISION")])])
def test_polls_find_a_collision_when_both_connections_outlive_a_dead_one(until, expected):
    """Listed twice from 10 on: a dead connection is gone 130 s after its last heartbeat, at 140."""
    trace = Trace().poll(0, {"a": holding(0, 1, 2, 3)})
    trace.listed_twice = "a"
    for at in range(10, until + 1, 10):
        trace.poll(at, {"a": holding(0, 1, 2, 3)})
    assert trace.incidents("CLIENT_ID_COLLISION") == expected
    trace.listed_twice = None
    trace.poll(until + 10, {"a": holding(0, 1, 2, 3)})
    assert trace.incidents("CLIENT_ID_COLLISION")[1:] == [
        (until + 10, "RESOLVED", "CLIENT_ID_COLLISION") for _ in expected
    ]
