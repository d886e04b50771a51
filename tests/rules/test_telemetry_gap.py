"""TELEMETRY_GAP: missing telemetry; scenarios through a shard."""

import msgspec

from rebalance_model.observe.effects import AnyEffect, GroupSnapshot, IncidentTransition
from rebalance_model.observe.events import TelemetryLost
from rebalance_model.observe.rules.registry import codes_needing
from tests.support.folding import folded
from tests.support.hook_trace import HookTrace
from tests.support.simulated import SimulatedRun, simulate, small, transitions
from tests.support.source_rounds import rounds
from tests.support.trace import START, Trace


def fold(run: SimulatedRun) -> list[AnyEffect]:
    return folded(run.events)


def of_codes(effects: list[AnyEffect], *codes: str) -> list[tuple[float, str, str]]:
    return [t for t in transitions(effects) if t[2].split()[0] in codes]


def test_a_hook_that_cannot_write_is_silent_and_then_reports_its_loss():
    """The disk is full from 55 to 145: nothing is judged by it since its tick at 54, which is reported 15 s later."""
    effects = fold(simulate("hook-full", hook=True, poll=True))
    assert [(round(at), *what) for at, *what in of_codes(effects, "TELEMETRY_GAP")] == [
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
    assert covered["silent_rules"] == sorted(codes_needing("HOOKS"))


def test_a_stopped_collector_is_silent_until_it_reports_again():
    effects = fold(simulate("collector-away", hook=True, poll=True))
    run = of_codes(effects, "TELEMETRY_GAP")
    assert [t[1:] for t in run] == [
        ("OPENED", "TELEMETRY_GAP POLL_SILENT"),
        ("RESOLVED", "TELEMETRY_GAP POLL_SILENT"),
    ]
    away = [e for e in effects if isinstance(e, GroupSnapshot) and '"polls":false' in e.coverage]
    covered = msgspec.json.decode(away[-1].coverage)
    assert (covered["hooks"], covered["brokers_answering"], covered["offsets"]) == (1, 0, False)
    assert covered["silent_rules"] == sorted(codes_needing("POLLS", "OFFSETS", "DEAD_LETTERS"))


def test_answers_after_a_collectors_last_tick_do_not_bring_it_back():
    """From the simulation, seed 881: it is killed between the answers of a round and its next tick."""
    away = small({"at": 62.2, "do": "collector-away", "lasts": 60}, minutes=4)
    effects = fold(simulate(away, hook=True, poll=True))
    assert [(round(at), *what) for at, *what in of_codes(effects, "TELEMETRY_GAP")] == [
        (77, "OPENED", "TELEMETRY_GAP POLL_SILENT"),
        (183, "RESOLVED", "TELEMETRY_GAP POLL_SILENT"),
    ]


def test_a_broker_that_is_down_explains_that_its_hook_is_silent():
    """Its hook ends at 61, and one unanswered request is enough then; its silence is reported at 81."""
    down = small({"at": 61, "do": "stop-broker", "broker": "broker-a", "lasts": 30}, minutes=3)
    effects = fold(simulate(down, hook=True, poll=True))
    assert [(round(at), *what) for at, *what in of_codes(effects, "BROKER_UNREACHABLE", "TELEMETRY_GAP")] == [
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


def test_a_restarted_collector_has_lost_nothing():
    trace = rounds(Trace(), 0, 10)
    trace.source_id, trace.seq = f"poll-1@{START + 15_000}", 5
    rounds(trace, 20, 30)
    assert trace.incidents("TELEMETRY_GAP") == []


def test_missing_events_are_a_gap_until_every_member_sent_a_heartbeat():
    trace = HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0, 1)
    lost = TelemetryLost(from_time=1, to_time=2, count=7, reason="disk full", seq=1, **trace._common(trace.clock(2)))
    trace._observe(lost)
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
