"""The scenario table of the sources: brokers that answer nothing, telemetry that is missing, clocks that are off."""

from itertools import groupby

import msgspec
import pytest

from rebalance_model.observe.effects import AnyEffect, GroupSnapshot, IncidentTransition, QueueSnapshot
from rebalance_model.observe.engine import machine
from rebalance_model.observe.events import AnyEvent, BrokerStatus, ConsumerConnection, RpcError, TelemetryLost
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import ClusterState
from rebalance_model.observe.turn import ClusterStep, Moment, Turn
from rebalance_model.observe.verdicts.coverage import NEED_COMMITS, NEED_HOOKS, NEED_OFFSETS, NEED_POLLS
from rebalance_model.observe.verdicts.rules import (
    BROKER_RULES,
    CLIENT_RULES,
    CLUSTER_RULES,
    GROUP_RULES,
    QUEUE_RULES,
    REBALANCE_RULES,
    broker_unreachable,
    clock_skew,
    telemetry_gap,
)
from tests.core.simulation.run import Told, small, tell, transitions
from tests.scenarios import trace as traces
from tests.scenarios.hook_trace import A, HookTrace
from tests.scenarios.trace import SILENT, START, Held, Member, Trace, holding
from tests.support.folding import folded

TWO = {"a": holding(0, 1), "b": holding(2, 3)}
OFFSETS = dict.fromkeys(range(4), (100, 100))
DOWN = ("BROKER_UNREACHABLE",)


def rounds(trace: Trace, *times: float, members: dict[str, Member] | None = TWO) -> Trace:
    for at in times:
        trace.poll(at, members, None if members is None else OFFSETS)
    return trace


def statuses(trace: Trace, queue_id: int) -> list[tuple[float, str, str]]:
    rows = [e for e in trace.effects if isinstance(e, QueueSnapshot) and e.queue_id == queue_id]
    return [((e.time - START) / 1000, e.status, e.status_reason) for e in rows]


def last_state(trace: Trace) -> GroupSnapshot:
    return [e for e in trace.effects if isinstance(e, GroupSnapshot)][-1]


# BROKER_UNREACHABLE


def test_a_broker_that_leaves_two_rounds_without_an_answer_is_unreachable_until_it_answers():
    trace = rounds(rounds(rounds(Trace(), 0, 10), 20, 30, 40, members=None), *range(50, 120, 10))
    assert trace.incidents() == [(30, "OPENED", "BROKER_UNREACHABLE"), (110, "RESOLVED", "BROKER_UNREACHABLE")]
    assert statuses(trace, 0)[1:] == [
        (0, "OK", ""),
        (30, "BAD", "BROKER_UNREACHABLE"),
        (50, "OK", ""),
    ]
    [opened, _] = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code in DOWN]
    told = msgspec.json.decode(opened.evidence)
    assert (told["unanswered"], told["silent_ms"], told["hook_silent"]) == (2, 10_000, None)


def test_one_that_is_back_for_less_than_a_minute_has_not_been_away_twice():
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
    """16 (NO_PERMISSION): it is there, and says why not."""
    trace = rounds(Trace(), 0)
    for at in (10, 20, 30):
        trace.tick(at)
        trace.status(at, error=16)
        trace._fold(ConsumerConnection(error=RpcError(code=16), **trace._poll(START + at * 1000)))
    assert trace.incidents() == []


def test_what_opens_on_its_queues_is_its_child_and_stands_alone_when_it_is_back():
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


def test_what_opens_while_it_waits_to_be_resolved_stands_alone():
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


def test_a_critical_child_waits_for_what_a_question_in_vain_may_mean():
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


# A broker that is back

OLD = {"a": holding(0, 1, lock_age=75), "b": holding(2, 3, lock_age=75)}


def test_a_lock_that_nobody_could_renew_at_a_broker_that_was_away_is_renewed_in_the_clients_next_turn():
    """As in the lab: 50 s away, and in the first answer after it every lock was expired, by all that is known."""
    trace = rounds(rounds(rounds(Trace(), 0, 10), 20, 30, 40, 50, 60, members=None), 70, 80, members=OLD)
    rounds(trace, 90)
    assert trace.incidents("LOCK_EXPIRED") == []


def test_a_lock_that_is_not_renewed_20_s_after_its_broker_is_back_is_expired():
    trace = rounds(rounds(rounds(Trace(), 0, 10), 20, 30, 40, members=None), 50, 60, 70, members=OLD)
    assert trace.incidents("LOCK_EXPIRED") == []
    rounds(trace, 80, members=OLD)
    assert trace.incidents("LOCK_EXPIRED") == [(80, "OPENED", "LOCK_EXPIRED")] * 4


def test_after_a_restart_that_no_round_missed_it_is_the_same():
    trace = rounds(Trace(), 0, 10)
    reboot(trace, 15)
    rounds(rounds(trace, 20, 30, members=OLD), 40)
    assert trace.incidents("LOCK_EXPIRED") == []


def test_of_a_client_that_stays_silent_after_its_brokers_return_it_is_told_20_s_after():
    """b is first asked in vain at 20: at 50, when the broker is back, its lock is 30 s old, and counts from 70 on."""
    silent = {"a": holding(0, 1), "b": SILENT}
    trace = rounds(rounds(rounds(Trace(), 0, 10), 20, members=silent), 30, 40, members=None)
    rounds(trace, 50, 60, 70, members=silent)
    assert trace.incidents("LOCK_EXPIRED") == []
    rounds(trace, 80, members=silent)
    assert {t[:2] for t in trace.incidents("LOCK_EXPIRED")} == {(70.001, "OPENED")}


def test_after_one_round_in_vain_a_lock_is_judged_at_once():
    trace = rounds(rounds(rounds(Trace(), 0, 10), 20, members=None), 30, members=OLD)
    assert {t[:2] for t in trace.incidents("LOCK_EXPIRED")} == {(30, "OPENED")}


# A restart that polls alone show


def reboot(trace: Trace, at: int) -> None:
    now = START + at * 1000
    fields = trace._poll(now)
    del fields["group"], fields["asked"]
    trace.seq -= 1  # a broadcast has numbers of its own
    event = BrokerStatus(boot_time=now, **fields)
    trace._advance(now)
    trace._keep(machine.on_polled_restart(trace.state, trace.moment(event), trace.policy, event=event))
    trace.state.validate()


def test_members_are_waited_for_after_a_restart_that_only_polls_show():
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


def test_who_does_not_come_back_after_a_restart_is_gone_after_45_s():
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


def test_a_restart_that_the_hook_tells_or_another_collector_is_left_to_them():
    hooked = HookTrace().heart_beat(0, "a", "b").passes(0.5).poll(1, TWO).passes(1.5)
    reboot(hooked, 2)
    assert hooked.state.views[A].awaited == {}
    polled = rounds(Trace(), 0)
    polled.source_id = f"poll-2@{START}"
    reboot(polled, 5)
    assert polled.state.views[A].awaited == {}
    unknown = Trace()
    reboot(unknown, 5)
    assert unknown.effects == []


# CLOCK_SKEW


@pytest.mark.parametrize(
    ("off", "sub_cause"),
    [(-7_200_000, "BEHIND"), (7_200_000, "AHEAD"), (6_001, "AHEAD"), (-9_001, "BEHIND")],
)
def test_a_client_whose_clock_is_off_is_told_after_60_s(monkeypatch, off, sub_cause):
    """At 10 its newest stamp is proved newer than its answer of 0, so at 70 it has been so for 60 s."""
    monkeypatch.setattr(traces, "CLIENT_CLOCK_OFF", off)
    trace = Trace()
    for n in range(9):  # its newest stamp is 1 s old, or 6 s: either end of the interval is narrowed down
        trace.poll(10 * n, {"a": holding(0, pull_age=1 + 5 * (n % 2), consume_age=9, lock_age=9)})
    assert next(t for t in trace.incidents("CLOCK_SKEW") if t[1] == "OPENED")[0] in (70, 80)
    assert {t[2] for t in trace.incidents("CLOCK_SKEW")} == {f"CLOCK_SKEW {sub_cause}"}
    [opened] = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "CLOCK_SKEW"]
    bounds = msgspec.json.decode(opened.evidence)
    assert (opened.severity, opened.client_id) == ("info", "a")
    assert bounds["ahead_ms_min"] <= off <= bounds["ahead_ms_max"]


@pytest.mark.parametrize("off", [0, 4_999, -4_999])
def test_a_clock_within_5_s_is_right_and_a_stamp_may_be_old(monkeypatch, off):
    """The client has not pulled for 25 s: its newest stamp says nothing of its clock."""
    monkeypatch.setattr(traces, "CLIENT_CLOCK_OFF", off)
    trace = Trace()
    for n in range(12):
        age = 10 * (n % 4)
        trace.poll(10 * n, {"a": holding(0, pull_age=age, consume_age=age, lock_age=age)})
    assert trace.incidents("CLOCK_SKEW") == []


def test_a_clock_that_is_set_right_is_told(monkeypatch):
    trace = Trace()
    for n in range(8):
        trace.poll(10 * n, {"a": holding(0)})
    monkeypatch.setattr(traces, "CLIENT_CLOCK_OFF", 0)
    for n in range(8, 11):
        age = 1 + 7 * (n % 2)
        trace.poll(10 * n, {"a": holding(0, pull_age=age, consume_age=age, lock_age=age)})
    assert [t[1] for t in trace.incidents("CLOCK_SKEW")] == ["OPENED", "RESOLVED"]


def stored(off: int, *, fresh: bool = True) -> Trace:
    """A broker whose clock is ``off`` says when it stored what was consumed last: 2 s ago, unless it is not fresh."""
    trace = rounds(Trace(), 0)
    for at in range(10, 90, 10):
        trace.poll(at, TWO)
        now = START + 1_000 * at
        row = traces.OffsetInfo(
            mq=traces.mq(0),
            broker_offset=100 + at,
            consumer_offset=100 + at if fresh else 100,
            last_time=now - 2_000 + off,
        )
        trace._fold(traces.ConsumeStats(queues=(row,), **trace._poll(now)))
    return trace


@pytest.mark.parametrize(
    ("off", "sub_cause"), [(3_600_000, "BROKER_AHEAD"), (7_001, "BROKER_AHEAD"), (-13_001, "BROKER_BEHIND")]
)
def test_a_broker_whose_clock_is_off_is_told_after_60_s(off, sub_cause):
    """Of a message stored between the questions of 0 and 10 the stamp, 2 s old, lies 8 s after the first one."""
    trace = stored(off)
    assert [t for t in trace.incidents("CLOCK_SKEW") if "BROKER" in t[2]] == [
        (70, "OPENED", f"CLOCK_SKEW {sub_cause}"),
    ]
    opened = next(e for e in trace.effects if isinstance(e, IncidentTransition) and "BROKER" in e.sub_cause)
    told = msgspec.json.decode(opened.evidence)
    assert (opened.subject, opened.client_id, told["ahead_ms_min"]) == (A, None, off - 2_000)
    trace.poll(100, {"b": holding(2, 3)})  # members come and go: that is no news of it
    assert len([t for t in trace.incidents("CLOCK_SKEW") if "BROKER" in t[2]]) == 1


@pytest.mark.parametrize(("off", "fresh"), [(0, True), (6_999, True), (-12_999, True), (-3_600_000, False)])
def test_a_brokers_clock_that_may_be_right_and_a_message_that_may_be_old_are_near_misses(off, fresh):
    assert [t for t in stored(off, fresh=fresh).incidents("CLOCK_SKEW") if "BROKER" in t[2]] == []


def test_a_brokers_clock_that_was_set_right_is_clear():
    trace = stored(3_600_000)
    trace.poll(100, TWO)
    row = traces.OffsetInfo(mq=traces.mq(0), broker_offset=300, consumer_offset=300, last_time=START + 98_000)
    trace._fold(traces.ConsumeStats(queues=(row,), **trace._poll(START + 100_000)))
    assert [t[1] for t in trace.incidents("CLOCK_SKEW") if "BROKER" in t[2]] == ["OPENED"]
    trace._fold(
        traces.ConsumeStats(
            queues=(msgspec.structs.replace(row, broker_offset=301, consumer_offset=301, last_time=START + 100_500),),
            **trace._poll(START + 101_000),
        )
    )
    assert [t[1] for t in trace.incidents("CLOCK_SKEW") if "BROKER" in t[2]] == ["OPENED", "RESOLVED"]


# TELEMETRY_GAP: stories, through a shard


def fold(told: Told) -> list[AnyEffect]:
    return folded(told.events)


def of(effects: list[AnyEffect], *codes: str) -> list[tuple[float, str, str]]:
    return [t for t in transitions(effects) if t[2].split()[0] in codes]


def test_a_hook_that_cannot_write_is_silent_then_has_lost_something_and_says_why():
    """The disk is full from 55 to 145: nothing rests on it since its tick at 54, which is told 15 s later."""
    effects = fold(tell("hook-full", hook=True, poll=True))
    assert [(round(at), *what) for at, *what in of(effects, "TELEMETRY_GAP")] == [
        (69, "OPENED", "TELEMETRY_GAP HOOK_SILENT"),
        (145, "OPENED", "TELEMETRY_GAP HOOK_LOST"),
        (205, "RESOLVED", "TELEMETRY_GAP HOOK_SILENT"),
        (240, "RESOLVED", "TELEMETRY_GAP HOOK_LOST"),
    ]
    lost = [e for e in effects if isinstance(e, IncidentTransition) and e.sub_cause == "HOOK_LOST"]
    assert msgspec.json.decode(lost[0].evidence)["lost"] > 0
    silent = [e for e in effects if isinstance(e, GroupSnapshot) and 71_000 < e.time - START < 140_000]
    covered = msgspec.json.decode(silent[0].coverage)
    assert (covered["hooks"], covered["polls"]) == (0, True)
    assert covered["silent_rules"] == sorted(NEED_HOOKS)


def test_a_collector_that_is_away_is_silent_until_it_is_back():
    effects = fold(tell("collector-away", hook=True, poll=True))
    told = of(effects, "TELEMETRY_GAP")
    assert [t[1:] for t in told] == [
        ("OPENED", "TELEMETRY_GAP POLL_SILENT"),
        ("RESOLVED", "TELEMETRY_GAP POLL_SILENT"),
    ]
    away = [e for e in effects if isinstance(e, GroupSnapshot) and '"polls":false' in e.coverage]
    covered = msgspec.json.decode(away[-1].coverage)
    assert (covered["hooks"], covered["brokers_answering"], covered["offsets"]) == (1, 0, False)
    assert covered["silent_rules"] == sorted(NEED_POLLS + NEED_OFFSETS)


def test_a_broker_that_is_down_explains_that_its_hook_is_silent():
    """Its hook ends at 61, and one question in vain is enough then; of its silence it is told at 81."""
    down = small({"at": 61, "do": "stop-broker", "broker": "broker-a", "lasts": 30}, minutes=3)
    effects = fold(tell(down, hook=True, poll=True))
    assert [(round(at), *what) for at, *what in of(effects, "BROKER_UNREACHABLE", "TELEMETRY_GAP")] == [
        (62, "OPENED", "BROKER_UNREACHABLE HOOK_SILENT"),
        (81, "OPENED", "TELEMETRY_GAP HOOK_SILENT"),
        (91, "RECLASSIFIED", "BROKER_UNREACHABLE"),
        (151, "RESOLVED", "TELEMETRY_GAP HOOK_SILENT"),
        (152, "RESOLVED", "BROKER_UNREACHABLE"),
    ]
    [gap] = [e for e in effects if getattr(e, "code", "") == "TELEMETRY_GAP" and e.transition == "OPENED"]
    assert gap.parent is not None


def test_answers_that_are_missing_are_a_gap_for_two_rounds():
    trace = rounds(Trace(), 0, 10)
    trace.seq += 3
    rounds(trace, *range(20, 110, 10)).tick(101)
    assert trace.incidents("TELEMETRY_GAP") == [
        (20, "OPENED", "TELEMETRY_GAP POLL_LOST"),
        (100.001, "RESOLVED", "TELEMETRY_GAP POLL_LOST"),
    ]


def test_a_collector_that_starts_anew_has_lost_nothing():
    trace = rounds(Trace(), 0, 10)
    trace.source_id, trace.seq = f"poll-1@{START + 15_000}", 5
    rounds(trace, 20, 30)
    assert trace.incidents("TELEMETRY_GAP") == []


def test_events_that_are_missing_are_a_gap_until_every_member_has_heartbeaten():
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0, 1)
    lost = TelemetryLost(from_time=1, to_time=2, count=7, reason="disk full", seq=1, **trace._common(trace.clock(2)))
    machine.note_loss(trace.state, trace.moment(lost), trace.policy, event=lost)
    trace.hook_seq["broker-a-0"] += 7
    trace.locks(10, "a", 0, 1)
    for at in (20, 30, 44):
        trace.locks(at, "a", 0, 1).heart_beat(at, "a", "b").passes(at)
    assert trace.incidents("TELEMETRY_GAP") == [(10, "OPENED", "TELEMETRY_GAP HOOK_LOST")]
    [opened] = [e for e in trace.effects if isinstance(e, IncidentTransition) and e.code == "TELEMETRY_GAP"]
    assert msgspec.json.decode(opened.evidence) | {"lost": 7, "reason": "disk full"} == msgspec.json.decode(
        opened.evidence
    )
    for at in (60, 80, 100):
        trace.locks(at, "a", 0, 1).heart_beat(at, "a", "b").passes(at)
    trace.passes(110)
    assert trace.incidents("TELEMETRY_GAP")[-1] == (105.001, "RESOLVED", "TELEMETRY_GAP HOOK_LOST")


# What every rule must stand


def test_what_is_not_there_any_more_is_clear_and_has_no_numbers():
    turn = Turn(Trace().state, Policy(), Moment(START, None, START))
    step = ClusterStep(ClusterState("c"), Policy(), Moment(START, None, START))
    assert broker_unreachable.evidence(step, "gone") == {}
    assert telemetry_gap.source_evidence(step, "gone")["source"] == ""
    assert clock_skew.clock_evidence(step, "gone")["ahead_ms_min"] is None
    for rule in CLUSTER_RULES:
        assert type(rule.judge(step, "gone")).__name__ == "Clear"
    assert telemetry_gap.hook_evidence(turn, "gone")["source"] == ""
    assert clock_skew.evidence(turn, "gone")["ahead_ms_min"] is None
    for rule in (telemetry_gap.OF_HOOK, telemetry_gap.OF_POLLS, clock_skew.RULE):
        assert type(rule.judge(turn, "gone")).__name__ == "Clear"


def test_an_unanswered_broker_is_not_judged_while_the_collector_itself_is_silent():
    trace = rounds(rounds(Trace(), 0), 10, members=None)
    trace.falls_silent(10, "c/poll-1")
    step = ClusterStep(trace.cluster, trace.policy, trace.moment())
    assert broker_unreachable.judge(step, A) is None


def test_coverage_names_rules_that_there_are():
    of_groups = (QUEUE_RULES, CLIENT_RULES, BROKER_RULES, REBALANCE_RULES, GROUP_RULES)
    codes = {rule.code for rules in (*of_groups, CLUSTER_RULES) for rule in rules}
    assert codes.issuperset(NEED_HOOKS + NEED_POLLS + NEED_OFFSETS + NEED_COMMITS)


def test_a_group_that_only_a_hook_told_of_is_unknown_when_that_is_silent():
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0, 1).passes(2)
    assert last_state(trace).health == "OK"
    effects = trace.falls_silent(2, trace.view().source)
    assert [(e.health, e.health_reason) for e in effects if isinstance(e, GroupSnapshot)] == [
        ("UNKNOWN", "no source tells of it")
    ]
    told = len(trace.effects)
    effects = trace.passes(17).effects[told:]  # with the gap
    assert {(e.status, e.status_reason) for e in effects if isinstance(e, QueueSnapshot)} == {
        ("UNKNOWN", "no source tells of broker-a")
    }
