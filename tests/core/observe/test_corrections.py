"""Hook and polls are combined: polls confirm or correct the hook's view, and replace it while it is silent."""

from collections.abc import Callable

import pytest

from rebalance_model.observe.effects import AnyEffect, AssignmentChange, GroupSnapshot, RebalanceSettled
from rebalance_model.observe.events import AnyEvent, GetConsumerListByGroup, HeartBeat
from rebalance_model.observe.state import GroupState
from rebalance_model.observe.step import CORRECTIONS_MAX
from simulation.cluster import START
from simulation.emitter import CLUSTER
from tests.support.folding import Fold
from tests.support.hook_trace import A, HookTrace
from tests.support.simulated import SimulatedRun, simulate, small, transitions
from tests.support.trace import Member, holding

TWO = {"a": holding(0, 1), "b": holding(2, 3)}


def corrections(effects: list[AnyEffect]) -> list[str]:
    return [one for e in effects if isinstance(e, GroupSnapshot) for one in e.corrections]


def rounds(trace: HookTrace, members: dict[str, Member], *times: int) -> HookTrace:
    """Polls, while the hook ticks beside them."""
    for at in times:
        trace.passes(at - 0.5).poll(at, members)
    return trace


def ordered() -> HookTrace:
    trace = HookTrace().heart_beat(0, "a", "b").locks(0.1, "a", 0, 1).locks(0.1, "b", 2, 3)
    return rounds(trace, TWO, 1)


# What the hook did not report


def test_a_closed_channel_that_no_list_reports_goes_with_the_next_answer():
    trace = rounds(ordered(), {"b": TWO["b"]}, 10)
    assert (trace.state.members, corrections(trace.effects)) == (("b",), ["CHANNEL_CLOSED a:0 a"])
    assert trace.owners() == {0: None, 1: None, 2: "b", 3: "b"}
    rounds(trace, {"b": TWO["b"]}, 20)
    assert len(corrections(trace.effects)) == 1


def test_a_member_with_lost_heartbeats_joins_at_the_second_answer():
    trace = rounds(ordered(), TWO | {"c": holding()}, 10, 20)
    assert trace.state.members == ("a", "b", "c")
    assert corrections(trace.effects) == ["CHANNEL_MISSED c:0 c"]
    trace.heart_beat(25, "c")
    assert trace.channels() == {"a:0": "a", "b:0": "b", "c:0": "c"}


def test_a_lost_subscription_is_added_and_an_ended_one_is_removed():
    trace = ordered().heart_beat(5, "a", topics=("Other",))
    rounds(trace, TWO, 10)
    assert list(trace.state.views[A].info.subscription_table) == ["Other"]
    rounds(trace, TWO, 20)
    assert list(trace.state.views[A].info.subscription_table) == ["Orders"]
    assert corrections(trace.effects) == ["SUBSCRIPTION_GONE Other", "SUBSCRIPTION_MISSED Orders *"]


def test_an_event_between_two_answers_settles_an_unconfirmed_difference():
    trace = rounds(ordered().heart_beat(9.5, "a"), {"b": TWO["b"]}, 10).heart_beat(19.5, "a")
    rounds(trace, {"b": TWO["b"]}, 20)
    assert corrections(trace.effects) == []
    assert trace.state.members == ("a", "b")


def test_an_answer_names_the_channel_of_a_client_that_was_only_listed():
    trace = HookTrace().lists(0, "a", "b")
    assert trace.channels() == {"?a": "a", "?b": "b"}
    rounds(trace, TWO, 1)
    assert trace.channels() == {"a:0": "a", "b:0": "b"}
    assert corrections(trace.effects) == []


def test_the_first_known_member_declares_the_group_and_the_last_ends_it():
    trace = rounds(ordered().lists(5), TWO, 10, 20)
    assert trace.channels() == {"a:0": "a", "b:0": "b"}
    assert trace.state.views[A].info.message_model == "CLUSTERING"
    rounds(trace, {}, 30, 40)
    assert trace.state.members == ()
    assert trace.state.views[A].info.subscription_table == {}


def test_a_row_names_no_more_corrections_than_fit():
    many = {f"c{n:03}": holding() for n in range(CORRECTIONS_MAX + 1)}
    trace = rounds(ordered(), TWO | many, 10, 20)
    assert len(trace.state.members) == len(many) + 2
    assert len(corrections(trace.effects)) == CORRECTIONS_MAX


# Stories with something missing

STEPS = ({"at": 40, "do": "kill", "who": "c-1", "lasts": 60}, {"at": 150, "do": "leave", "who": "c-3"})


@pytest.fixture(scope="module")
def run() -> SimulatedRun:
    return simulate(small(*STEPS, minutes=4), hook=True, poll=True)


def is_hooks(event: AnyEvent) -> bool:
    return event.source_id.startswith("hook")


def seconds(event: AnyEvent) -> float:
    return (event.time - START) / 1000


def fold(
    events: list[AnyEvent], stamp_of: Callable[[AnyEvent], int | None] = lambda _: None
) -> tuple[GroupState, list[AnyEffect]]:
    """Return the group and all effects; ``stamp_of``: when the log, by its own clock, got an event."""
    fold = Fold()
    effects = [effect for event in events for effect in fold.push(event, stamp_of(event))] + fold.shard.finish()
    fold.shard.timeline.group(CLUSTER, "g").validate()
    return fold.shard.timeline.group(CLUSTER, "g"), effects


def is_true(state: GroupState, run: SimulatedRun) -> bool:
    """Return whether every queue has the owner that it really has, at the story's end."""
    owners = run.cluster.world.truth.owners("g")
    return {mq: [q.owner] for mq, q in state.queues.items() if not mq.is_retry} == {
        mq: owner for mq, owner in owners.items() if not mq.is_retry
    }


def alarms(effects: list[AnyEffect], *explained: str) -> set[str]:
    """The incidents beside those of the killed client's locks, a silent source, and those given."""
    expected = {"LOCK_ORPHANED", "TELEMETRY_GAP", *explained}
    return {name for _, _, name in transitions(effects) if name.partition(" ")[0] not in expected}


def changes(effects: list[AnyEffect]) -> list[tuple[float, str, str]]:
    return [
        (seconds(e), e.action, f"{e.topic}:{e.queue_id} {e.client_id}")
        for e in effects
        if isinstance(e, AssignmentChange)
    ]


def test_complete_telemetry_needs_no_correction(run):
    state, effects = fold(run.events)
    assert is_true(state, run)
    assert (corrections(effects), alarms(effects)) == ([], set())


def test_a_joining_members_heartbeats_lost_with_every_list(run):
    """c-1 is back at 100; no heartbeat of it and no list until 140 reach the log."""

    def is_lost(event: AnyEvent) -> bool:
        if not 100 <= seconds(event) < 140:
            return False
        return isinstance(event, GetConsumerListByGroup) or (isinstance(event, HeartBeat) and "c-1" in event.client_id)

    state, effects = fold([event for event in run.events if not is_lost(event)])
    channel, subscription = corrections(effects)
    assert (channel[:14], channel[-3:]) == ("CHANNEL_MISSED", "c-1")
    assert subscription == "SUBSCRIPTION_MISSED %RETRY%g *"  # c-1's own, of a newer version
    assert is_true(state, run)
    assert alarms(effects) == set()


def test_a_killed_member_that_no_member_list_shows(run):
    def is_lost(event: AnyEvent) -> bool:
        return isinstance(event, GetConsumerListByGroup) and 40 <= seconds(event) < 75

    state, effects = fold([event for event in run.events if not is_lost(event)])
    [correction] = corrections(effects)
    assert correction.startswith("CHANNEL_CLOSED")
    assert is_true(state, run)


@pytest.mark.parametrize(("first", "last"), [(30, 120), (35, 60), (140, 200), (0, 90)])
def test_polls_replace_a_hook_that_is_silent_for_a_while(run, first, last):
    events = [event for event in run.events if not (is_hooks(event) and first <= seconds(event) < last)]
    state, effects = fold(events)
    assert is_true(state, run)
    assert alarms(effects) == set()
    polled, _ = fold([event for event in run.events if not is_hooks(event)])
    assert state.members == polled.members
    assert {mq: q.owner for mq, q in state.queues.items()} == {mq: q.owner for mq, q in polled.queues.items()}
    first_changes = changes(effects)
    assert len(first_changes) == len(set(first_changes))
    owner: dict[str, str] = {}
    for _, action, what in first_changes:  # each release is of who had it, nothing is assigned twice
        queue, client = what.split()
        assert owner.pop(queue, client) == client if action == "RELEASED" else queue not in owner
        if action == "ASSIGNED":
            owner[queue] = client


@pytest.mark.parametrize("late", [5, 20])
def test_a_late_spool_makes_no_incident_and_no_lasting_wrong_owner(run, late):
    def arrival(event: AnyEvent) -> float:
        return seconds(event) + (late if is_hooks(event) else 0)

    state, effects = fold(sorted(run.events, key=arrival))
    assert is_true(state, run)
    assert alarms(effects) == set()


@pytest.mark.parametrize("offset", [-10_800_000, 10_800_000])
def test_a_broker_clock_that_is_hours_off_moves_and_expires_nothing_more(run, offset):
    brokers = [{"name": "broker-a", "clock_offset_ms": offset}]
    off = simulate(small(*STEPS, minutes=4, brokers=brokers), hook=True, poll=True)
    state, effects = fold(off.events, lambda event: event.time - (offset if is_hooks(event) else 0))
    _, right_effects = fold(run.events)
    assert is_true(state, off)
    assert alarms(effects, "CLOCK_SKEW") == alarms(right_effects) == set()
    assert [one[1:] for one in changes(effects)] == [one[1:] for one in changes(right_effects)]
    assert corrections(effects) == []
    rebalances, right = ([e for e in one if isinstance(e, RebalanceSettled)] for one in (effects, right_effects))
    assert [(e.trigger, e.converged) for e in rebalances] == [(e.trigger, e.converged) for e in right]
    assert rebalances[-1].time == pytest.approx(right[-1].time, abs=2_000)  # the collector's clock dates the rows
