"""Costs of the rebalances in the demo's capture, beside a short reading of the hook's raw calls."""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from rebalance_model.observe.effects import AnyRow, IncidentTransition, QueueMove, RebalanceSettled
from tests.support.findings import CAPTURE, effects

pytestmark = pytest.mark.xdist_group("costs")  # the capture is folded once for all of them

GROUP = "orders-group"
Calls = dict[tuple[str, int], list[tuple[int, str, int]]]
"""By client and queue: when, what (GRANTED, UNLOCKED, PULLED, COMMITTED), and the offset."""


@pytest.fixture(scope="module")
def rows() -> list[AnyRow]:
    return effects()


@pytest.fixture(scope="module")
def rebalances(rows) -> list[RebalanceSettled]:
    return [row for row in rows if isinstance(row, RebalanceSettled)]


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    with gzip.open(CAPTURE, "rt") as lines:
        return [event for event in map(json.loads, lines) if event["source"] == "hook"]


@pytest.fixture(scope="module")
def calls(events) -> Calls:
    by_client: Calls = defaultdict(list)
    channels = {e["channel"]: e["client_id"] for e in events if "client_id" in e}
    for e in events:
        if e.get("group") != GROUP:
            continue
        client = channels.get(e["channel"], "")
        for name, what in (("granted", "GRANTED"), ("queues", "UNLOCKED")):
            for mq in e.get(name, ()):
                if mq["topic"] == "Orders":
                    by_client[client, mq["queue_id"]].append((e["time"], what, -1))
        if e["type"] == "PULL_MESSAGE" and e["topic"] == "Orders" and e.get("code") in (None, 0, 19):
            by_client[client, e["queue_id"]].append((e["last_time"], "PULLED", e["last_offset"]))
            by_client[client, e["queue_id"]].append((e["first_time"], "FIRST", e["first_offset"]))
            if e["commit_offset"] >= 0:
                by_client[client, e["queue_id"]].append((e["last_time"], "COMMITTED", e["commit_offset"]))
        if e["type"] == "UPDATE_CONSUMER_OFFSET" and e["topic"] == "Orders":
            by_client[client, e["queue_id"]].append((e["time"], "COMMITTED", e["offset"]))
    for of_client in by_client.values():
        of_client.sort()
    return by_client


def holders(calls: Calls, queue_id: int, start: int, end: int) -> list[tuple[int, str | None]]:
    """Return who gets the lock, or gives it back, within a rebalance; an unlock of another's lock does nothing."""
    lock_times: list[tuple[int, str | None]] = []
    about = sorted(
        (time, what, client)
        for (client, queue), of_client in calls.items()
        for time, what, _ in of_client
        if queue == queue_id and start <= time <= end and what in ("GRANTED", "UNLOCKED")
    )
    for time, what, client in about:
        holder = lock_times[-1][1] if lock_times else client
        if what == "GRANTED" and (not lock_times or holder != client):
            lock_times.append((time, client))
        elif what == "UNLOCKED" and holder == client:
            lock_times.append((time, None))
    return lock_times


def pause(calls: Calls, boots: list[int], move: QueueMove, start: int, end: int) -> int:
    """From the old owner's last sign before it lost the queue to the heir's lock."""
    seen = holders(calls, move.queue.queue_id, start, end)
    of_former = calls[move.from_client or "", move.queue.queue_id]
    unlocks = [time for time, what, _ in of_former if what == "UNLOCKED" and start <= time <= end]
    lost = min(
        [time for time in boots if start <= time <= end] + [time for time, who in seen if who != move.from_client]
    )
    stopped = lost if lost in unlocks else max(time for time, _, _ in of_former if time < lost)
    return seen[-1][0] - stopped


def moves(rebalances: list[RebalanceSettled]) -> Iterator[tuple[RebalanceSettled, QueueMove]]:
    for rebalance in rebalances:
        if rebalance.group == GROUP:
            yield from (
                (rebalance, move)
                for move in rebalance.moves
                if move.from_client is not None and move.to_client is not None
            )


def test_pauses_are_those_of_the_raw_calls(rebalances, calls, events):
    boots = [event["boot_time"] and event["time"] for event in events if event["type"] == "BROKER_STATUS"]
    reported = {(one.start_time, move.queue.queue_id): move.pause_ms for one, move in moves(rebalances)}
    raw = {
        (one.start_time, move.queue.queue_id): pause(calls, boots[1:], move, one.start_time, one.end_time)
        for one, move in moves(rebalances)
    }
    assert reported == raw
    assert len(raw) > 35
    assert not any(move.pause_is_at_most for _, move in moves(rebalances))


def test_what_is_read_again_is_that_of_the_raw_calls(rebalances, calls):
    compared = 0
    for rebalance, move in moves(rebalances):
        queue_id = move.queue.queue_id
        seen = [holder for _, holder in holders(calls, queue_id, rebalance.start_time, rebalance.end_time) if holder]
        if len(seen) != 1 or move.kind != "MOVED":
            continue  # it went through several hands
        taken = max(time for time, _ in holders(calls, queue_id, rebalance.start_time, rebalance.end_time))
        of_former = [call for call in calls[move.from_client or "", queue_id] if call[0] <= rebalance.time]
        begun = next(offset for time, what, offset in calls[seen[0], queue_id] if what == "FIRST" and time >= taken)
        committed = max(offset for _, what, offset in of_former if what == "COMMITTED")
        pulled = max(offset for _, what, offset in of_former if what == "PULLED")
        assert move.reconsumed_min == max(0, committed - begun), (rebalance.start_time, move)
        assert move.reconsumed_max is not None
        assert move.reconsumed_min <= move.reconsumed_max <= max(0, pulled + 32 - begun)
        compared += 1
    assert compared > 20


def test_the_numbers_above_a_table_are_its_sums(rebalances):
    for rebalance in rebalances:
        kinds = [move.kind for move in rebalance.moves]
        numbers = [rebalance.queues_moved, rebalance.queues_interrupted, rebalance.queues_unassigned]
        assert numbers == [kinds.count(kind) for kind in ("MOVED", "INTERRUPTED", "UNASSIGNED")]
        assert rebalance.reconsumed_min == sum(move.reconsumed_min or 0 for move in rebalance.moves)
        assert rebalance.reconsumed_max == sum(move.reconsumed_max or 0 for move in rebalance.moves)
        assert rebalance.pause_ms_max == max(
            (move.pause_ms for move in rebalance.moves if move.pause_ms is not None), default=None
        )


def test_the_thaw_and_the_restart_read_as_what_happened(rebalances):
    """A thaw: 18.9 s from unlock to lock, 247 messages; a restart: almost a minute, three queues without owner."""
    thaw = next(one for one in rebalances if one.reconsumed_min and one.group == GROUP)
    assert (thaw.pause_ms_max, thaw.reconsumed_min, thaw.converged) == (18_862, 247, True)
    restart = rebalances[-1]
    assert (restart.trigger, restart.group, restart.converged) == ("BROKER_RESTARTED", GROUP, False)
    assert (restart.queues_moved, restart.queues_interrupted, restart.queues_unassigned) == (3, 6, 3)
    assert restart.pause_ms_max is not None
    assert 54_000 < restart.pause_ms_max < 60_000


def test_duplicates_name_the_rebalance_that_counts_them(rows, rebalances):
    reported: dict[str, int] = defaultdict(int)
    for row in rows:
        if isinstance(row, IncidentTransition) and row.code == "DUPLICATE_CONSUMPTION" and row.transition == "OPENED":
            evidence = json.loads(row.evidence)
            reported[evidence["rebalance_id"]] += evidence["messages"]
    assert reported == {one.rebalance_id: one.reconsumed_min for one in rebalances if one.reconsumed_min}
