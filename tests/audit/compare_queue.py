"""Compare one queue at one instant: owner, lock, lag, waiting time, what is popped."""

from tests.audit.answers import Shown
from tests.audit.compare_lag import HOOK_ROW_MS, compare_lag
from tests.audit.differences import Difference, Result
from tests.audit.owners import GroupOwners
from tests.audit.popped import Lag
from tests.audit.quantities import Wait
from tests.audit.reading import Reading, named, owner_at
from tests.audit.telemetry import Observed, Place, Queue, Series, Value

STALE_INTERVALS = 2
INTERVAL_JITTER_MS = 1_000
LOOK_BACK_MS = 900_000
"""An observation that is older than this, and than three intervals, is ignored."""
SHOWN_WITHIN_MS = 10_000
"""The maximum time between the first event about a queue and its appearance in the answers."""
_OF = (lambda one: (one.lag, one.at_least), lambda one: one.in_flight, lambda one: one.in_flight_since)


def compare_queue(
    result: Result, reading: Reading, place: Place, queue: Queue, instant: int, answer: Shown | None
) -> None:
    is_due = answer is not None or instant - reading.first_seen[place][queue] <= SHOWN_WITHIN_MS
    result.check(is_due, Difference("queue shown", instant, place, named(queue), None, "seen before"))
    if answer is None:
        return
    if _compare_popped(result, reading, place, queue, instant, answer):
        return
    last = _last(reading.quantities.lags, reading, place, queue, instant)
    stale = _is_stale(None if last is None else instant - last.time, reading)
    compare_lag(result, reading, place, queue, instant, answer, last, stale=stale)
    if reading.polls:
        _compare_wait(result, reading, place, queue, instant, answer)
    if reading.hooks:
        _compare_owner(result, reading, place, queue, instant, answer)
    else:
        _compare_claim(result, reading, place, queue, instant, answer)


def _compare_owner(result: Result, reading: Reading, place: Place, queue: Queue, instant: int, answer: Shown) -> None:
    group = reading.owners[place]
    owner, changes = owner_at(group, queue, instant), group.queues[queue].changes
    proof = next((change.shown_by for change in reversed(changes) if change.time <= instant), "")
    differs = Difference("owner", instant, place, named(queue), answer.owner, owner, proof)
    result.check(answer.owner == owner, differs)
    if group.ordered and owner is not None and answer.owner == owner:
        _compare_lock(result, reading, place, queue, instant, owner, answer)


def _compare_popped(result: Result, reading: Reading, place: Place, queue: Queue, instant: int, answer: Shown) -> bool:
    """Compare lag and what is in flight of a queue that is popped; return whether it is."""
    if queue not in reading.popped.queues().get(place, ()):
        return False
    last = _last(reading.quantities.lags, reading, place, queue, instant)
    at = answer.lag_time or (last.time if last is not None else instant)
    [candidates] = reading.popped.at(place, queue, at)
    if not candidates:
        return False
    subject, proof = named(queue), f"{instant - at} ms before"
    answered = [] if last is None else reading.popped.at(place, queue, last.time)[0]
    exact = [one for one in answered if not one.at_least]
    if last is not None and exact and _is_stale(instant - last.time, reading) is False:
        newest = Difference("popped lag of the last answer", instant, place, subject, at, last.time)
        result.check(answer.lag_at_least or at == last.time, newest)
    if answer.lag_time is None:
        candidates += [Lag(None, one.at_least, None, None) for one in candidates if one.lag is None]
        candidates += [one._replace(at_least=False) for one in candidates]  # nothing is shown of what is unknown
    values = [(answer.lag, answer.lag_at_least), answer.in_flight, answer.in_flight_since]
    fits = candidates
    for kind, value, field_of in zip(
        ("popped lag", "popped in flight", "popped in flight since"), values, _OF, strict=True
    ):
        fits = [one for one in fits if field_of(one) == value]
        result.check(
            bool(fits), Difference(kind, instant, place, subject, value, [field_of(one) for one in candidates], proof)
        )
    return True


def _compare_wait(result: Result, reading: Reading, place: Place, queue: Queue, instant: int, answer: Shown) -> None:
    subject = named(queue)
    waits = _waits(reading, place, queue, instant)
    raws = [None if wait is None or wait.value is None else tuple(wait.value) for wait in waits]
    result.check(answer.wait in raws, Difference("waiting time", instant, place, subject, answer.wait, raws))
    ages = [instant - wait.time for wait, raw in zip(waits, raws, strict=True) if wait and raw == answer.wait]
    if answer.wait is not None and None not in (stale := {_is_stale(age, reading) for age in ages}) and stale:
        mark = Difference("stale waiting time", instant, place, subject, answer.wait_stale, stale)
        result.check(answer.wait_stale in stale, mark)


def _waits(reading: Reading, place: Place, queue: Queue, instant: int) -> list[Observed[Wait | None] | None]:
    """Return the observation of the waiting time that holds; both if it is unclear whether the exact one is stale."""
    span = _last(reading.quantities.spans, reading, place, queue, instant)
    bound = _last(reading.quantities.bounds, reading, place, queue, instant)
    if span is None or bound is None or bound.value is None or span.time > bound.time:
        return [span or bound]
    stale = _is_stale(instant - span.time, reading)
    return [span, bound] if stale is None else [bound if stale else span]


def _last(
    series: dict[tuple[Place, Queue], Series[Value]], reading: Reading, place: Place, queue: Queue, instant: int
) -> Observed[Value] | None:
    """Return the last observation by an instant; None if there is none, or it is too old to be used."""
    found = series[place, queue].at(instant) if (place, queue) in series else None
    return found if found is not None and instant - found.time <= max(LOOK_BACK_MS, 3 * reading.interval) else None


def _is_stale(old: int | None, reading: Reading) -> bool | None:
    """Return whether an observation is older than two intervals; None if that is unclear because intervals vary."""
    limit = STALE_INTERVALS * reading.interval
    return None if old is None or abs(old - limit) <= INTERVAL_JITTER_MS else old > limit


def _compare_lock(
    result: Result, reading: Reading, place: Place, queue: Queue, instant: int, owner: str, answer: Shown
) -> None:
    """Compare the lock's age with the age of the last grant, or of earlier ones until a row of the hook must have it.

    If there are polls, the age may be up to an interval less: a client's own timestamp is only an upper bound. A lock
    that the broker has lost in a restart is not compared.
    """
    group = reading.owners[place]
    if group.has_forgotten(queue, owner, instant):
        return
    ages = sorted(instant - stamp for stamp in _grants(group, queue, owner, instant))
    less = reading.slack if reading.polls else 0
    age = answer.lock_age_ms
    fits = not ages if age is None else any(one - less <= age <= one for one in ages)
    result.check(fits, Difference("lock age", instant, place, named(queue), age, ages))


def _grants(group: GroupOwners, queue: Queue, owner: str, instant: int) -> set[int]:
    """Return the times of the owner's grants, back to the last one that a row of the hook must have."""
    times, at = set[int](), instant
    while (stamp := group.queues[queue].by_client[owner].last_grant(at)) is not None:
        times.add(stamp)
        if stamp <= instant - HOOK_ROW_MS:
            break
        at = stamp - 1
    return times


def _compare_claim(result: Result, reading: Reading, place: Place, queue: Queue, instant: int, answer: Shown) -> None:
    series = reading.claims[place].queues.get(queue)
    slack = reading.slack
    sets = series.within(instant - slack, instant + slack) if series is not None else []
    if series is None or series.at(instant - slack) is None:
        sets = [frozenset(), *sets]  # no answer had contained it yet
    fits = any(answer.owner in one if answer.owner is not None else not one for one in sets)
    subject, raw = named(queue), [sorted(one) for one in sets]
    result.check(fits, Difference("owner by polls", instant, place, subject, answer.owner, raw))
