"""A client that the broker also lists on a dead channel: its second share has no owner."""

import json

from rebalance_model.observe.effects import IncidentTransition
from tests.support.hook_trace import HookTrace
from tests.support.trace import START, Member, Trace, holding

SILENT_BY_DEAD_CHANNEL = Member(error=1, remark="invoke consumer <g> <x> Exception: RemotingSendRequestException")
EVERY_10_S = range(0, 100, 10)


def polled(trace: Trace, lag: int) -> Trace:
    """Two clients, four queues; from 10 s on x is listed twice, and AVG's second share (queue 2) has no owner."""
    for at in EVERY_10_S:
        trace.listed_twice = "x" if at else None
        held = {"x": holding(0, 1), "y": holding(2, 3)} if not at else {"x": holding(0, 1), "y": holding(3)}
        waits = lag * at // 10
        trace.poll(at, held, {0: (at, at), 1: (at, at), 2: (100 + waits, 100), 3: (at, at)})
    return trace


def evidence(trace: Trace, transition: str) -> dict[str, object]:
    found = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "QUEUE_UNASSIGNED"]
    return json.loads(next(e.evidence for e in found if e.transition == transition))


def test_the_ghosts_share_is_reported_as_soon_as_its_lag_grows():
    trace = polled(Trace(), lag=5)
    assert trace.incidents("QUEUE_UNASSIGNED") == [
        (40, "OPENED", "QUEUE_UNASSIGNED GHOST_CONNECTION"),
        (80, "ESCALATED", "QUEUE_UNASSIGNED GHOST_CONNECTION"),
    ]
    fields = evidence(trace, "OPENED")
    assert (fields["ghost_clients"], fields["dead_channels"], fields["living_channels"]) == ("x", "x:0", "x:1")
    assert (fields["queues_without_owner"], fields["first_queues"]) == (1, "Orders@broker-a:2")
    assert fields["latest_drop_at"] == START + 140_000  # first listed twice at 10 s
    assert fields["earliest_drop_at"] is None  # polls see no heartbeat


def test_without_lag_the_ghosts_share_is_not_reported():
    assert polled(Trace(), lag=0).incidents("QUEUE_UNASSIGNED") == []


def test_a_ghosts_client_that_does_not_answer_hides_nothing():
    """The broker forwards requests over the dead channel."""
    trace = Trace()
    for at in EVERY_10_S:
        trace.listed_twice = "x" if at else None
        x = holding(0, 1) if not at else SILENT_BY_DEAD_CHANNEL
        y = holding(2, 3) if not at else holding(3)
        trace.poll(at, {"x": x, "y": y}, {2: (100 + at, 100)})
    assert trace.incidents("QUEUE_UNASSIGNED")[0] == (40, "OPENED", "QUEUE_UNASSIGNED GHOST_CONNECTION")


def test_locks_and_pulls_of_a_silent_ghosts_client_are_unknown():
    """It renews and pulls on its living channel, as after a real broker's restart."""
    trace = Trace()
    for at in range(0, 140, 10):
        trace.listed_twice = "x" if at else None
        trace.poll(at, {"x": SILENT_BY_DEAD_CHANNEL if at else holding(0, 1), "y": holding(2, 3)})
    assert trace.incidents("LOCK_EXPIRED", "PULL_EXPIRED") == []
    for at in range(140, 180, 10):  # the broker has dropped the dead channel: now it is asked on the living one
        trace.listed_twice = None
        trace.poll(at, {"x": SILENT_BY_DEAD_CHANNEL, "y": holding(2, 3)})
    assert {name for _, _, name in trace.incidents("LOCK_EXPIRED")} == {"LOCK_EXPIRED"}


def test_the_hook_shows_which_channel_is_dead_and_when_it_may_be_dropped():
    trace = HookTrace().boots(0)
    trace.heart_beat(1, "x", "y").locks(2, "x", 0, 1).locks(2, "y", 2, 3)
    trace.poll(5, {"x": holding(0, 1), "y": holding(2, 3)}, {2: (100, 100)})
    trace.heart_beat(8, "x", number=1).unlocks(9, "y", 2)
    for at in range(10, 80, 10):
        trace.listed_twice = "x"
        if at in (30, 60):
            trace.heart_beat(at, "y").heart_beat(at + 8, "x", number=1)
        trace.poll(at + 9, {"x": holding(0, 1), "y": holding(3)}, {2: (100 + at, 100)})
    assert [(at, what) for at, what, _ in trace.incidents("QUEUE_UNASSIGNED")] == [
        (31.001, "OPENED"),  # 20 s after it was unlocked, with lag
        (79, "ESCALATED"),
    ]
    shown = evidence(trace, "ESCALATED")
    assert (shown["dead_channels"], shown["living_channels"]) == ("x:0", "x:1")
    assert (shown["earliest_drop_at"], shown["latest_drop_at"]) == (START + 121_000, START + 131_000)


def test_two_processes_with_one_client_id_are_no_ghost():
    """Both channels are listed for longer than a broker keeps a dead one."""
    trace = polled(Trace(), lag=5)
    trace.listed_twice = "x"
    for at in range(100, 300, 10):
        trace.poll(at, {"x": holding(0, 1), "y": holding(3)}, {2: (1000 + at, 100)})
    assert trace.incidents("CLIENT_ID_COLLISION")
    assert trace.incidents("QUEUE_UNASSIGNED")[-1][1:] == ("RECLASSIFIED", "QUEUE_UNASSIGNED")


def test_two_channels_with_equal_heartbeats_leave_the_dead_one_unknown():
    trace = HookTrace().boots(0)
    trace.heart_beat(1, "x", "y").locks(2, "x", 0, 1).locks(2, "y", 2, 3)
    trace.poll(5, {"x": holding(0, 1), "y": holding(2, 3)}, {2: (100, 100)})
    trace.heart_beat(8, "x", number=1).heart_beat(8, "x").unlocks(9, "y", 2)
    for at in range(10, 60, 10):
        trace.listed_twice = "x"
        trace.poll(at + 9, {"x": holding(0, 1), "y": holding(3)}, {2: (100 + at, 100)})
    shown = evidence(trace, "OPENED")
    assert (shown["dead_channels"], shown["living_channels"]) == ("x:0 or x:1", "")


def test_without_a_member_list_no_ghost_is_known():
    """The last member leaves at 20, and from 30 on the broker does not answer for its members."""
    trace = Trace(route=1)
    for at in range(0, 100, 10):
        members = {"a": holding(0)} if at < 20 else {} if at < 30 else None
        trace.poll(at, members, {0: (200 + at, 100)})
    assert trace.incidents("ORDERED_QUEUE_STUCK")[-1] == (80, "RECLASSIFIED", "ORDERED_QUEUE_STUCK UNASSIGNED")
