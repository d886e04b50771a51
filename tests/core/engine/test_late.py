"""A source that comes 90 s or ten minutes late is reported, and no row contradicts the run in which it is in time.

A row contradicts if that run has, further than one poll interval from a change of the queue, another owner, no
overlapping incident of that code and subject, or, of a rebalance, only other causes.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TypeAlias

import pytest

from rebalance_model.observe.effects import AnyEffect, AssignmentChange, IncidentTransition, RebalanceSettled
from tests.core.engine.test_delay import ONE_DEMO, delayed, fold, of_collector, of_hook, the_demo

pytestmark = ONE_DEMO
FAR_BEHIND = {of_hook: "broker-a", of_collector: "poll-1"}
"""The subject of the gap that each late source leads to."""
INTERVAL = 10_000
LAST = 30_000
"""What opens so shortly before the recording ends may have no time left to open in the other run."""
Queue: TypeAlias = tuple[str, str]
"""A group and a queue's name."""


@cache
def in_time() -> list[AnyEffect]:
    return fold(the_demo())


def changes(rows: Iterable[AnyEffect]) -> dict[Queue, list[tuple[int, str | None]]]:
    """Return when each queue had another owner, and who."""
    by_queue: dict[Queue, list[tuple[int, str | None]]] = defaultdict(list)
    for row in sorted((row for row in rows if isinstance(row, AssignmentChange)), key=lambda row: (row.time, row.seq)):
        owner = row.client_id if row.action == "ASSIGNED" else None
        by_queue[row.group, f"{row.topic}@{row.broker}:{row.queue_id}"].append((row.time, owner))
    return by_queue


def lives(rows: Iterable[AnyEffect]) -> list[tuple[tuple[str, str, str], int, float]]:
    """Group, code and subject of each incident, and from when to when it was open."""
    by_id: dict[str, tuple[tuple[str, str, str], int, float]] = {}
    for row in rows:
        if isinstance(row, IncidentTransition):
            ends = row.time if row.transition == "RESOLVED" else float("inf")
            by_id[row.incident_id] = (row.group, row.code, row.subject), row.opened_at, ends
    return list(by_id.values())


def contradictions(rows: list[AnyEffect], reference: list[AnyEffect]) -> Iterator[tuple[object, ...]]:
    owners, incidents, last = changes(reference), lives(reference), reference[-1].time
    settled = [row for row in reference if isinstance(row, RebalanceSettled)]

    def near_a_change(queue: Queue, time: int) -> bool:
        return any(abs(at - time) <= INTERVAL for at, _ in owners.get(queue, ()))

    for queue, found in changes(rows).items():
        for time, owner in found:
            then = [one for at, one in owners[queue] if at <= time][-1:] or [None]
            if then != [owner] and not near_a_change(queue, time):
                yield queue, time, owner, then
    for (group, code, subject), begins, ends in lives(rows):
        if code == "TELEMETRY_GAP" or begins > last - LAST or near_a_change((group, subject), begins):
            continue
        if not any(of == (group, code, subject) and begins <= till and ends >= since for of, since, till in incidents):
            yield group, code, subject, begins, ends
    for row in (row for row in rows if isinstance(row, RebalanceSettled)):
        beside = [one for one in settled if one.group == row.group and _overlap(one, row)]
        causes = {cause for one in beside for cause in one.causes}
        if not any(_fits(row.trigger, row.trigger_client, cause) for cause in causes):
            yield row.group, row.start_time, row.trigger, row.trigger_client, causes


def _overlap(first: RebalanceSettled, other: RebalanceSettled) -> bool:
    return first.start_time - INTERVAL <= other.end_time and other.start_time - INTERVAL <= first.end_time


def _fits(trigger: str, client: str | None, cause: str) -> bool:
    """Return whether a cause is the trigger, or all that polls show of it: the client is gone, or queues moved."""
    if trigger == "CLIENT_LEFT":
        return cause in {f"{why} {client}" for why in ("CLIENT_UNREGISTERED", "CONNECTION_CLOSED", "HEARTBEAT_EXPIRED")}
    return trigger == "UNEXPLAINED" or cause.startswith(trigger)


@pytest.mark.parametrize(
    ("is_late", "ms"),
    [
        (of_hook, 600_000),
        (of_collector, 90_000),
        *(pytest.param(*one, marks=pytest.mark.prove) for one in ((of_hook, 90_000), (of_collector, 600_000))),
    ],
)
def test_a_source_far_behind_is_reported_and_nothing_false_is_written(is_late, ms):
    rows = fold(delayed(the_demo(), is_late, ms))
    gaps = [row for row in rows if isinstance(row, IncidentTransition) and row.code == "TELEMETRY_GAP"]
    assert [(row.transition, row.sub_cause) for row in gaps if row.subject == FAR_BEHIND[is_late]][:1] == [
        ("OPENED", "LATE")
    ]
    assert list(contradictions(rows, in_time())) == []


def test_a_false_owner_incident_or_cause_is_a_contradiction():
    """The comparison itself: two hours later everything that was open or owned is another's."""
    reference = in_time()
    moved = [row for row in reference if isinstance(row, AssignmentChange | RebalanceSettled | IncidentTransition)]
    assert list(contradictions(moved, reference)) == []
    shifted = [_later(row) for row in moved]
    assert len(list(contradictions(shifted, reference))) > 20


def _later(row: AnyEffect) -> AnyEffect:
    fields = {name: getattr(row, name) for name in row.__struct_fields__}
    by = 37_000
    for name in ("time", "opened_at", "start_time", "end_time"):
        if name in fields:
            fields[name] += by
    return type(row)(**fields)
