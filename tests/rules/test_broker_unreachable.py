"""BROKER_UNREACHABLE: brokers that do not answer, and other incidents during and after it."""

from itertools import groupby

import msgspec

from rebalance_model.observe.effects import IncidentTransition, QueueSnapshot
from rebalance_model.observe.events import AnyEvent, BrokerStatus, ConsumerConnection, RpcError
from tests.support import trace as traces
from tests.support.hook_trace import A, HookTrace
from tests.support.source_rounds import OFFSETS, TWO, rounds
from tests.support.trace import SILENT, START, Held, Member, Trace, holding

DOWN = ("BROKER_UNREACHABLE",)


def statuses(trace: Trace, queue_id: int) -> list[tuple[float, str, str]]:
    rows = [e for e in trace.effects if isinstance(e, QueueSnapshot) and e.queue_id == queue_id]
    return [((e.time - START) / 1000, e.status, e.status_reason) for e in rows]


# BROKER_UNREACHABLE


def test_a_broker_is_unreachable_from_two_unanswered_rounds_to_its_answer():
    trace = rounds(rounds(rounds(Trace(), 0, 10), 20, 30, 40, members=None), *range(50, 120, 10))
    assert trace.incidents() == [(30, "OPENED", "BROKER_UNREACHABLE"), (110, "RESOLVED", "BROKER_UNREACHABLE")]
    assert statuses(trace, 0)[1:] == [
        (0, "OK", ""),
        (30, "BAD", "BROKER_UNREACHABLE"),
        (50, "OK", ""),
    ]
    [opened, _] = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code in DOWN]
    evidence = msgspec.json.decode(opened.evidence)
    assert (evidence["unanswered"], evidence["silent_ms"], evidence["hook_silent"]) == (2, 10_000, None)


def test_two_outages_within_a_minute_are_one_incident():
    trace = rounds(rounds(rounds(Trace(), 0, 10), 20, 30, members=None), 40, 50)
    trace = rounds(rounds(trace, 60, 70, members=None), *range(80, 150, 10))
    assert trace.incidents() == [(30, "OPENED", "BROKER_UNREACHABLE"), (140, "RESOLVED", "BROKER_UNREACHABLE")]
    assert [what for what, _ in groupby(what for _, *what in statuses(trace, 0)[1:])] == [
        ["OK", ""],
        ["BAD", "BROKER_UNREACHABLE"], ["OK", ""], ["BAD", "BROKER_UNREACHABLE"], ["OK", ""],
    ]  # fmt: skip


def test_one_round_without_an_answer_is_a_near_miss():
    trace = rounds(rounds(rounds(Trace(), 0, 10), 20, members=None), 30)
    assert trace.incidents() == []


def test_an_error_of_the_brokers_own_is_an_answer():
    """16 (NO_PERMISSION): it is there, and reports the reason."""
    trace = rounds(Trace(), 0)
    for at in (10, 20, 30):
        trace.tick(at)
        trace.status(at, error=16)
        trace._fold(ConsumerConnection(error=RpcError(code=16), **trace._poll(START + at * 1000)))
    assert trace.incidents() == []


def test_queue_incidents_are_children_while_the_broker_is_unreachable():
    """Queue 0 was about to be stuck when the broker went: the alert is the broker's, until it answers again."""
    stuck = {0: (150, 100), **dict.fromkeys(range(1, 4), (150, 150))}
    owner = Member((Held(0, consume_age=1, cached=10), Held(1)))
    trace = rounds(Trace(), 0)
    for at in (10, 20, 30, 40, 50, 60, 70):
        trace.poll(at, {"a": owner, "b": holding(2, 3)}, stuck)
    turn_down(trace, 71, 72)
    trace._fold(trace_stats(trace, 73, stuck))
    stuck_row = [e for e in trace.effects if isinstance(e, IncidentTransition)][-1]
    assert (stuck_row.code, stuck_row.transition) == ("ORDERED_QUEUE_STUCK", "OPENED")
    assert stuck_row.parent is not None
    assert statuses(trace, 0)[-1][1:] == ("BAD", "BROKER_UNREACHABLE")
    trace.poll(80, {"a": owner, "b": holding(2, 3)}, stuck)
    assert statuses(trace, 0)[-1][1:] == ("BAD", "ORDERED_QUEUE_STUCK SUSPEND_LOOP")
    for at in range(90, 150, 10):
        trace.poll(at, {"a": owner, "b": holding(2, 3)}, stuck)
    assert trace.incidents()[-2:] == [
        (140, "RESOLVED", "BROKER_UNREACHABLE"),
        (140, "ESCALATED", "ORDERED_QUEUE_STUCK SUSPEND_LOOP"),
    ]
    assert [e for e in trace.effects if isinstance(e, IncidentTransition)][-1].parent is None


def test_an_incident_while_the_broker_is_reachable_has_no_parent():
    """Queue 0 was about to be stuck when the broker went, and is found to be when it is back."""
    stuck = {0: (150, 100), **dict.fromkeys(range(1, 4), (150, 150))}
    owner = Member((Held(0, consume_age=1, cached=10), Held(1)))
    trace = rounds(Trace(), 0)
    for at in (10, 20, 30, 40, 50, 60):
        trace.poll(at, {"a": owner, "b": holding(2, 3)}, stuck)
    turn_down(trace, 61, 62)
    for at in (65, 70, 80, 90):
        trace.poll(at, {"a": owner, "b": holding(2, 3)}, stuck)
    [opened] = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "ORDERED_QUEUE_STUCK"]
    assert (opened.transition, opened.parent, opened.alert_after) == ("OPENED", None, None)


def test_a_child_that_opened_just_before_its_parent_gets_it():
    """Queue 0 is stuck at 80, the broker does not answer from 85 on."""
    stuck = {0: (150, 100), **dict.fromkeys(range(1, 4), (150, 150))}
    owner = Member((Held(0, consume_age=1, cached=10), Held(1)))
    trace = rounds(Trace(), 0)
    for at in range(10, 90, 10):
        trace.poll(at, {"a": owner, "b": holding(2, 3)}, stuck)
    turn_down(trace, 85, 95)
    stuck_rows = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "ORDERED_QUEUE_STUCK"]
    [down] = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code in DOWN]
    assert [(e.transition, e.severity, e.parent) for e in stuck_rows] == [
        ("OPENED", "critical", None),
        ("DEESCALATED", "critical", down.incident_id),
    ]


def test_a_critical_alert_waits_until_reachability_is_decided():
    """The first question in vain comes before queue 0 is stuck: whether the broker is unreachable is open."""
    stuck = {0: (150, 100), **dict.fromkeys(range(1, 4), (150, 150))}
    owner = Member((Held(0, consume_age=1, cached=10), Held(1)))
    trace = rounds(Trace(), 0)
    for at in range(10, 80, 10):
        trace.poll(at, {"a": owner, "b": holding(2, 3)}, stuck)
    trace.status(72, error=-1)
    trace._fold(trace_stats(trace, 73, stuck))
    [opened] = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "ORDERED_QUEUE_STUCK"]
    assert (opened.transition, opened.parent, opened.alert_after) == ("OPENED", None, START + 103_000)


def turn_down(trace: Trace, *times: int) -> None:
    for at in times:
        trace.tick(at)
        trace.status(at, error=-1)
        trace._fold(ConsumerConnection(error=RpcError(code=-1), **trace._poll(START + at * 1000)))


def trace_stats(trace: Trace, at: int, offsets: dict[int, tuple[int, int]]) -> AnyEvent:
    rows = tuple(
        traces.OffsetInfo(mq=traces.mq(q), broker_offset=b, consumer_offset=c) for q, (b, c) in offsets.items()
    )
    return traces.ConsumeStats(queues=rows, **trace._poll(START + at * 1000))


OLD = {"a": holding(0, 1, lock_age=75), "b": holding(2, 3, lock_age=75)}


# A broker that is back


def test_after_an_outage_a_lock_may_be_renewed_in_the_next_interval():
    """As in the lab: 50 s away, and in the first answer after it every lock was expired, by all that is known."""
    trace = rounds(rounds(rounds(Trace(), 0, 10), 20, 30, 40, 50, 60, members=None), 70, 80, members=OLD)
    rounds(trace, 90)
    assert trace.incidents("LOCK_EXPIRED") == []


def test_a_lock_not_renewed_20_s_after_its_broker_is_back_is_expired():
    trace = rounds(rounds(rounds(Trace(), 0, 10), 20, 30, 40, members=None), 50, 60, 70, members=OLD)
    assert trace.incidents("LOCK_EXPIRED") == []
    rounds(trace, 80, members=OLD)
    assert trace.incidents("LOCK_EXPIRED") == [(80, "OPENED", "LOCK_EXPIRED")] * 4


def test_a_restart_between_two_rounds_is_treated_the_same():
    trace = rounds(Trace(), 0, 10)
    reboot(trace, 15)
    rounds(rounds(trace, 20, 30, members=OLD), 40)
    assert trace.incidents("LOCK_EXPIRED") == []


def test_a_client_silent_after_its_brokers_return_is_reported_20_s_after():
    """b is first asked in vain at 20: at 50, when the broker is back, its lock is 30 s old, and counts from 70 on."""
    silent = {"a": holding(0, 1), "b": SILENT}
    trace = rounds(rounds(rounds(Trace(), 0, 10), 20, members=silent), 30, 40, members=None)
    rounds(trace, 50, 60, 70, members=silent)
    assert trace.incidents("LOCK_EXPIRED") == []
    rounds(trace, 80, members=silent)
    assert {t[:2] for t in trace.incidents("LOCK_EXPIRED")} == {(70.001, "OPENED")}


def test_after_one_unanswered_round_a_lock_is_judged_at_once():
    trace = rounds(rounds(rounds(Trace(), 0, 10), 20, members=None), 30, members=OLD)
    assert {t[:2] for t in trace.incidents("LOCK_EXPIRED")} == {(30, "OPENED")}


def reboot(trace: Trace, at: int) -> None:
    now = START + at * 1000
    trace._observe(BrokerStatus(boot_time=now, broker="broker-a", **trace._of_collector(now)))


# A restart that polls alone show


def test_members_are_expected_back_after_a_restart_seen_by_polls_alone():
    trace = rounds(rounds(rounds(Trace(), 0, 10), 20, members=None), 29)
    reboot(trace, 30)
    rounds(trace, 30, members={})
    assert trace.state.members == ("a", "b")
    assert trace.state.views[A].lists("b")
    rounds(trace, 40, members={"a": holding(0, 1)})
    rounds(trace, 50, 60, 70, 80)
    assert trace.state.members == ("a", "b")
    assert trace.owners() == {0: "a", 1: "a", 2: "b", 3: "b"}
    assert trace.incidents() == []
    assert not [move for move in trace.moves() if move[0] > 0]
    assert [one.trigger for one in trace.rebalances()] == ["BROKER_RESTARTED"]


def test_a_client_that_does_not_return_after_a_restart_is_gone_in_45_s():
    """35 s, in which every client heartbeats, and a round."""
    trace = rounds(Trace(), 0, 10)
    reboot(trace, 20)
    for at in range(20, 65, 5):
        trace.poll(at, {"a": holding(0, 1)}, OFFSETS)
        trace.state.next_check = START + 1000 * at + 1  # something else makes the group be looked at
        trace.tick(at + 1)
    assert trace.state.members == ("a", "b")
    trace.tick(64.999)
    assert trace.state.members == ("a", "b")
    trace.tick(65)
    assert trace.state.members == ("a",)
    assert trace.owners() == {0: "a", 1: "a", 2: None, 3: None}


def test_a_restart_reported_by_hook_or_another_collector_is_left_to_them():
    hooked = HookTrace().heart_beat(0, "a", "b").passes(0.5).poll(1, TWO).passes(1.5)
    reboot(hooked, 2)
    assert hooked.state.views[A].expected_back_until == {}
    polled = rounds(Trace(), 0)
    polled.source_id = f"poll-2@{START}"
    reboot(polled, 5)
    assert polled.state.views[A].expected_back_until == {}
    unknown = Trace()
    reboot(unknown, 5)
    assert unknown.effects == []
