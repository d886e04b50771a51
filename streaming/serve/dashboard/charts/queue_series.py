"""The quantities of one queue over time as lines: interrupted where nothing is known, and where it is stale."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TypeAlias

from streaming.queries.results import QueueObservation

Line: TypeAlias = list[tuple[int, float]]
"""Connected points: time (epoch milliseconds) and value."""
Value = Callable[[QueueObservation], int | None]
_Step = tuple[int, int, float]
"""Begin, time from which it is stale, and value."""


def steps(observations: Iterable[QueueObservation], value: Value, until: int) -> list[Line]:
    """Return what was observed as steps: a value holds until the next one, or until it is stale."""
    return _joined(
        _until_next(
            ((o.time, o.stale_at, float(quantity)) for o in observations if (quantity := value(o)) is not None), until
        )
    )


def with_bounds(
    observations: Iterable[QueueObservation], value: Value, is_bound: Callable[[QueueObservation], bool], until: int
) -> tuple[list[Line], list[Line]]:
    """Return the exact values, and bounds where no exact value is known that is not stale."""
    seen: list[tuple[bool, _Step]] = []
    exact_until = -1
    for observation in observations:
        quantity, bound = value(observation), is_bound(observation)
        if quantity is None or (bound and observation.time <= exact_until):
            continue
        if not bound:
            exact_until = observation.stale_at
        seen.append((bound, (observation.time, observation.stale_at, float(quantity))))
    parts = list(zip((bound for bound, _ in seen), _until_next((step for _, step in seen), until), strict=True))
    exact, bounds = ([step for bound, step in parts if bound is as_bound] for as_bound in (False, True))
    return _joined(exact), _joined(bounds)


def _until_next(steps: Iterable[_Step], until: int) -> list[_Step]:
    """Return the steps with their ends: the begin of the next one, or when they are stale."""
    in_order = list(steps)
    begins = [*(begin for begin, _, _ in in_order[1:]), until]
    return [
        (begin, max(begin, min(following, stale_at, until)), value)
        for (begin, stale_at, value), following in zip(in_order, begins, strict=False)
    ]


def _joined(steps: Iterable[_Step]) -> list[Line]:
    return _connected([(begin, value), (end, value)] for begin, end, value in steps)


def _connected(parts: Iterable[Line]) -> list[Line]:
    """Return lines of parts in the order of time: those that follow each other without a gap are one line."""
    lines: list[Line] = []
    for part in parts:
        if lines and lines[-1][-1][0] >= part[0][0]:
            lines[-1] += part
        else:
            lines.append(part)
    return lines


def clipped(lines: Iterable[Line], since: int) -> list[Line]:
    """Return the parts of lines from a time on (epoch milliseconds)."""
    parts: list[Line] = []
    for line in lines:
        if line[-1][0] < since:
            continue
        after = [point for point in line if point[0] >= since]
        before = [point for point in line if point[0] < since]
        if before:
            (begin, first), (end, last) = before[-1], after[0]
            after.insert(0, (since, first + (last - first) * (since - begin) / (end - begin)))
        parts.append(after)
    return parts


def lock_ages(observations: Iterable[QueueObservation], until: int) -> list[Line]:
    """Return the age of the queue's lock: it rises with time, and falls when the lock is renewed.

    By the hook if that reports it; otherwise by the owner, whose times of renewal are the latest possible ones.
    """
    seen = list(observations)
    by_hook = [observation for observation in seen if observation.source == "HOOK"]
    reports = (
        by_hook
        if any(observation.lock_at is not None for observation in by_hook)
        else [observation for observation in seen if observation.client_id]
    )
    pairs = pairwise([*reports, None])
    return _connected(
        _lock_age(observation, observation.lock_at, following, until)
        for observation, following in pairs
        if observation is not None and observation.lock_at is not None
    )


def _lock_age(observation: QueueObservation, locked: int, following: QueueObservation | None, until: int) -> Line:
    """Return the age of the lock from one observation to the next one; after the last it is unknown."""
    goes_on = following is not None and following.time <= min(observation.stale_at, until)
    end = following.time if following is not None and goes_on else observation.time
    renewed = following.lock_at if following is not None else None
    line: Line = [(observation.time, observation.time - locked)]
    if renewed is not None and observation.time < renewed <= end:
        line += [(renewed, renewed - locked), (renewed, 0)]
        locked = renewed
    return [*line, (end, end - locked)]


def value_at(lines: Iterable[Line], time: int) -> float | None:
    """Return the value of a quantity at an instant, milliseconds since the epoch; None if it is unknown then."""
    for line in lines:
        if line[0][0] <= time <= line[-1][0]:
            (begin, first), (end, last) = max(
                (pair for pair in pairwise(line) if pair[0][0] <= time <= pair[1][0]), key=lambda pair: pair[1][0]
            )
            return last if end == begin else first + (last - first) * (time - begin) / (end - begin)
    return None
