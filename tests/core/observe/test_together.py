"""Hook and polls together are never less exact than either alone, for each kind of row, against the simulation's truth.

A pause that a hook shows is exact, so it is the measure for those of both. (That of polls may be too short by an
interval: a client's stamp of a pull is that of the request, which a broker that is down does not answer.) Polls show
owners that a hook can't see, of a client that stands still, of a broker that is down: what is one move by hook may then
be two by both.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import (
    AnyEffect,
    AssignmentChange,
    GroupSnapshot,
    IncidentTransition,
    QueueMove,
    RebalanceSettled,
)
from simulation.cluster import START
from simulation.truth import Fault, Owned
from tests.support.folding import folded
from tests.support.simulated import SimulatedRun, simulate

NAMES = ("kill", "leave", "join", "freeze", "hang", "broker-restart")
STORIES = [pytest.param(name, marks=pytest.mark.xdist_group(f"together {name}")) for name in NAMES]
"""One process simulates and folds a story for all of its tests."""
SETTLED = START + 30_000
A_SECOND = 1_000
ONE_REBALANCE = 40_000
"""The same move of a queue is not seen further apart by another kind of telemetry."""
AT_THE_SAME_ANSWER = 2_000
"""By both an incident opens at the first evidence of either; what is judged at an answer of either, a tick later."""
Queue = tuple[str, str, str, int]


@cache
def story(name: str) -> tuple[SimulatedRun, dict[str, list[AnyEffect]]]:
    """A story, and what each kind of its telemetry leads to."""
    run = simulate(name, hook=True, poll=True)
    kinds = {kind: [e for e in run.events if e.source_id.startswith(kind)] for kind in ("hook", "poll")}
    return run, {kind: folded(events) for kind, events in {**kinds, "both": run.events}.items()}


def place(group: str, mq: MessageQueue) -> Queue:
    return group, mq.topic, mq.broker, mq.queue_id


def wrong_owners(run: SimulatedRun, effects: Iterable[AnyEffect]) -> int:
    """At how many (second, queue) the owner shown is none of those that have it in truth.

    Of a client that stands still "nobody is known" is no error: its brokers have dropped it, and it does not know.
    """
    by_queue: defaultdict[Queue, list[tuple[int, int, str | None]]] = defaultdict(list)
    for e in effects:
        if isinstance(e, AssignmentChange):
            owner = e.client_id if e.action == "ASSIGNED" else None
            by_queue[e.group, e.topic, e.broker, e.queue_id].append((e.time, e.seq, owner))
    truth: defaultdict[Queue, list[Owned]] = defaultdict(list)
    for record in run.cluster.world.truth.records:
        if isinstance(record, Owned) and not record.queue.is_retry:
            truth[place(record.group, record.queue)].append(record)
    faults = [one for one in run.cluster.world.truth.records if isinstance(one, Fault) and one.kind == "freeze"]
    end, wrong = max(event.time for event in run.events), 0
    for queue, owned in truth.items():
        for at in range(SETTLED, end - A_SECOND, A_SECOND):
            owners = {one.client_id for one in owned if one.begin <= at and (one.end is None or at < one.end)}
            known = bisect_right(by_queue[queue], at, key=lambda row: row[0])
            owner = by_queue[queue][known - 1][2] if known else None
            stands = any(one.begin <= at <= (one.end or end) and _is_of(one, owners) for one in faults)
            wrong += owner not in (owners or {None}) and not (stands and owner is None)
    return wrong


def _is_of(fault: Fault, owners: Iterable[str]) -> bool:
    return any(fault.subject in owner for owner in owners)


def wrong_members(run: SimulatedRun, effects: Iterable[AnyEffect]) -> int:
    """Of how many groups the members shown at the story's end are not those that its brokers list."""
    last = {e.group: set(e.members) for e in effects if isinstance(e, GroupSnapshot)}
    return sum(
        members != {client for broker in run.cluster.brokers.values() for client in _listed(broker, group)}
        for group, members in last.items()
    )


def _listed(broker: object, group: str) -> list[str]:
    info = broker.manager.consumer_table.get(group)
    return info.client_ids() if info is not None else []


def opened(effects: Iterable[AnyEffect]) -> dict[tuple[str, str, str], int]:
    """Return when each incident first opened."""
    by_key: dict[tuple[str, str, str], int] = {}
    for e in effects:
        if isinstance(e, IncidentTransition) and e.transition == "OPENED":
            by_key.setdefault((e.group, e.code, e.subject), e.time)
    return by_key


def moves(effects: Iterable[AnyEffect]) -> list[tuple[int, QueueMove]]:
    """Each move of a queue, with the start of its rebalance."""
    return [(e.start_time, move) for e in effects if isinstance(e, RebalanceSettled) for move in e.moves]


def same_moves(effects: Iterable[AnyEffect], others: Iterable[AnyEffect]) -> Iterator[tuple[QueueMove, QueueMove]]:
    """Each move that is in both, from both."""
    theirs = moves(others)
    for start, move in moves(effects):
        named = (move.queue, move.from_client, move.to_client, move.kind)
        near = [
            (abs(began - start), number)
            for number, (began, other) in enumerate(theirs)
            if (other.queue, other.from_client, other.to_client, other.kind) == named
        ]
        if near and min(near)[0] < ONE_REBALANCE:
            yield move, theirs[min(near)[1]][1]


@pytest.mark.parametrize("name", STORIES)
def test_pauses_and_duplicates_are_no_less_exact(name):
    _, by = story(name)
    pairs = list(same_moves(by["hook"], by["both"]))
    assert len(pairs) >= len(moves(by["hook"])) // 2
    for alone, both in pairs:
        assert (both.pause_ms, both.pause_is_at_most) == (alone.pause_ms, alone.pause_is_at_most), both
        assert narrower(both, alone), (both, alone)
    by_hook = [both for _, both in pairs]
    for alone, both in same_moves(by["poll"], by["both"]):
        if both not in by_hook:
            assert narrower(both, alone), (both, alone)
            assert None in {both.pause_ms, alone.pause_ms} or both.pause_ms <= alone.pause_ms, (both, alone)


def narrower(move: QueueMove, than: QueueMove) -> bool:
    """Return whether the bounds of its duplicates lie within those of another one, as far as that has any."""
    low, high = than.reconsumed_min, than.reconsumed_max
    return (low is None or move.reconsumed_min >= low) and (high is None or move.reconsumed_max <= high)


@pytest.mark.parametrize("name", STORIES)
def test_owners_are_no_less_exact(name):
    run, by = story(name)
    wrong = Counter({kind: wrong_owners(run, effects) for kind, effects in by.items()})
    assert wrong["both"] <= min(wrong["hook"], wrong["poll"]), wrong


@pytest.mark.parametrize("name", STORIES)
def test_members_are_no_less_exact(name):
    run, by = story(name)
    wrong = {kind: wrong_members(run, effects) for kind, effects in by.items()}
    assert wrong["both"] <= min(wrong["hook"], wrong["poll"]), wrong


@pytest.mark.parametrize("name", STORIES)
def test_an_incident_opens_no_later_and_none_opens_that_neither_opens(name):
    _, by = story(name)
    alone = [opened(by["hook"]), opened(by["poll"])]
    both = opened(by["both"])
    assert both.keys() == alone[0].keys() | alone[1].keys()
    for incident, at in both.items():
        first = min(one[incident] for one in alone if incident in one)
        assert at <= first + AT_THE_SAME_ANSWER, (incident, at - first)
