"""Compare the answers with the audit's own evaluation: every difference, by kind, with the values of both sides."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.audit.answers import Row, Shown, ShownMove, ShownPopped, ShownRebalance, progress, rows, serving
from tests.audit.claims import GroupClaims, claims
from tests.audit.costs import PULL_BATCH_MAX, HandOver, hand_overs
from tests.audit.owners import GroupOwners, owners
from tests.audit.popped import Lag, Popped
from tests.audit.quantities import Quantities, Wait, quantities
from tests.audit.telemetry import Event, Observed, Place, Queue, Series, Value, queue_of

SETTLING_MS = 60_000
"""This long after its beginning a recording is not compared: what happened before it is unknown."""
NEAR_CHANGE_MS = 30_000
"""Half of the instants are at most this far from a change of an owner, where errors are likely."""
STALE_INTERVALS = 2
INTERVAL_JITTER_MS = 1_000
LOOK_BACK_MS = 900_000
"""An observation that is older than this, and than three intervals, is ignored."""
HOOK_ROW_MS = 11_000
"""The maximum time until a lock that a hook saw is written, 10 s and a tick; mostly it is written at once."""
SHOWN_WITHIN_MS = 10_000
"""The maximum time between the first event about a queue and its appearance in the answers."""


class Difference(NamedTuple):
    """One answer that differs from the raw telemetry."""

    kind: str
    time: int
    place: Place
    subject: str
    answered: object
    raw: object
    proof: str = ""
    """The raw event that proves the difference."""


@dataclass
class Result:
    """The number of comparisons by kind, and the differences."""

    compared: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)

    def check(self, fits: bool, difference: Difference) -> None:
        """Count one comparison."""
        self.compared[difference.kind] += 1
        if not fits:
            self.differences.append(difference)

    def by_kind(self) -> dict[str, list[Difference]]:
        """Return the differences of each kind that was compared."""
        kinds: dict[str, list[Difference]] = {kind: [] for kind in sorted(self.compared)}
        for difference in self.differences:
            kinds[difference.kind].append(difference)
        return kinds


@dataclass(frozen=True)
class Reading:
    """The evaluation of the raw telemetry."""

    events: list[Event]
    quantities: Quantities
    popped: Popped
    owners: dict[Place, GroupOwners]
    """The owners by hooks, combined with answers to polls; empty if there are no events of hooks."""
    claims: dict[Place, GroupClaims]
    first_seen: dict[Place, dict[Queue, int]]
    truth: dict[Place, GroupOwners]
    """The owners by the hooks of the recording, even if the job read only polls."""
    polls: bool
    interval: int
    """The median time between two answers of one client, milliseconds."""
    answer_time: int
    """The longest time that an answer took, milliseconds."""

    @property
    def slack(self) -> int:
        """The tolerance for polls: one interval and the time that an answer takes, milliseconds."""
        return self.interval + self.answer_time

    @property
    def hooks(self) -> bool:
        """Whether there are events of a broker's hook."""
        return bool(self.owners)

    def places(self) -> set[Place]:
        """Return every group."""
        return set(self.owners) | set(self.claims)

    def queues(self, place: Place, instant: int) -> list[Queue]:
        """Return the queues of a group that appeared in an event by an instant, without retry topics."""
        seen = self.first_seen[place].items()
        popped = self.popped.queues().get(place, set())
        found = (queue for queue, time in seen if time <= instant and queue[2] >= 0)  # -1: a POP of all queues
        return sorted(queue for queue in found if not is_retry(queue) or queue in popped)


def first_seen(events: Iterable[Event]) -> dict[Place, dict[Queue, int]]:
    """Return the time of the first event about each queue of each group."""
    by_place: dict[Place, dict[Queue, int]] = defaultdict(dict)
    for event in events:
        parts = [part.get("mq", part) for name in _PARTS for part in event.get(name) or ()]
        for part in (*parts, event.fields) if "queue_id" in event.fields else parts:
            by_place[event.place].setdefault(queue_of(part), event.time)
    return by_place


_PARTS = ("queues", "granted")


def named(queue: Queue) -> str:
    """Return the name of a queue for the report."""
    topic, broker, number = queue
    return f"{topic} {broker}:{number}"


def is_retry(queue: Queue) -> bool:
    """Return whether the queue belongs to a retry topic."""
    return queue[0].startswith("%RETRY%")


def read_all(recorded: list[Event], sources: Iterable[str]) -> Reading:
    """Evaluate the telemetry that a job which reads these kinds of sources has."""
    given = frozenset(sources)
    events = [event for event in recorded if event.source in given]
    hooked = any(event.source == "hook" and event.type != "TICK" for event in events)
    claimed = claims(events)
    gaps = [gap for group in claimed.values() for gap in group.intervals if gap]
    took = [event.time - event["asked"] for event in events if event.source == "poll" and event.get("asked")]
    return Reading(
        events,
        quantities(events),
        Popped(events),
        owners(events) if hooked else {},
        claimed,
        first_seen(events),
        owners(event for event in recorded if event.source == "hook"),
        any(event.source == "poll" for event in events),
        int(median(gaps)) if gaps else 0,
        max(took, default=0),
    )


def compare(recorded: list[Event], sources: Iterable[str], root: Path, pairs: int, seed: int) -> Result:
    """Compare random pairs of instant and queue, every rebalance, and every row's time.

    Args:
        recorded: all events of the recording.
        sources: the kinds of sources that the job read.
        root: the runtime root with the job's tables.
        pairs: the minimum number of pairs.
        seed: the seed of the random pairs.
    """
    reading, result, derived = read_all(recorded, sources), Result(), rows(root)
    settled = {row.rebalance_id: row.time for row in derived if row.table == "rebalances"}
    with serving(root) as api:
        for instant, place in samples(reading, random.Random(seed)):
            shown = api.queues(place, instant)
            for queue in reading.queues(place, instant):
                _compare_queue(result, reading, place, queue, instant, shown.get(queue))
            if result.compared["queue shown"] >= pairs:
                break
        for place in sorted(reading.truth.keys() & reading.places()):  # the sources given may lack a group
            rebalances = api.rebalances(place, settled)
            (_compare_rebalances if reading.hooks else _compare_polled_moves)(result, reading, place, rebalances)
    _compare_rows(result, reading, derived)
    _compare_progress(result, reading, progress(root))
    return result


def samples(reading: Reading, chance: random.Random) -> Iterator[tuple[int, Place]]:
    """Yield random instants, each with a group, without end."""
    first, last = reading.events[0].time + SETTLING_MS, reading.events[-1].time
    places = sorted(reading.places())
    changes = sorted(
        change.time
        for group in reading.truth.values()
        for history in group.queues.values()
        for change in history.changes
        if change.time > first
    )
    while True:
        near = bool(changes) and chance.random() < 0.5
        instant = chance.choice(changes) + chance.randint(-NEAR_CHANGE_MS, NEAR_CHANGE_MS) if near else 0
        yield instant if first <= instant <= last else chance.randint(first, last), chance.choice(places)


# One queue at one instant


def _compare_queue(
    result: Result, reading: Reading, place: Place, queue: Queue, instant: int, answer: Shown | None
) -> None:
    is_due = answer is not None or instant - reading.first_seen[place][queue] <= SHOWN_WITHIN_MS
    result.check(is_due, Difference("queue shown", instant, place, named(queue), None, "seen before"))
    if answer is None:
        return
    if _compare_popped(result, reading, place, queue, instant, answer):
        return
    if reading.polls:
        _compare_quantities(result, reading, place, queue, instant, answer)
    if reading.hooks:
        _compare_owner(result, reading, place, queue, instant, answer)
    else:
        _compare_claim(result, reading, place, queue, instant, answer)


def _compare_owner(result: Result, reading: Reading, place: Place, queue: Queue, instant: int, answer: Shown) -> None:
    group = reading.owners[place]
    owner, changes = _owner(group, queue, instant), group.queues[queue].changes
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


_OF = (lambda one: (one.lag, one.at_least), lambda one: one.in_flight, lambda one: one.in_flight_since)


def _compare_quantities(
    result: Result, reading: Reading, place: Place, queue: Queue, instant: int, answer: Shown
) -> None:
    subject = named(queue)
    last = _last(reading.quantities.lags, reading, place, queue, instant)
    old = None if last is None else instant - last.time
    proof = "no answer" if old is None else f"answered {old} ms before"
    if answer.lag_at_least:
        bound = Difference("lower bound in place of a lag", instant, place, subject, answer.lag, last, proof)
        result.check(last is None or last.value is None or _is_stale(old, reading) is not False, bound)
        return
    lag = last.value if last else None
    result.check(answer.lag == lag, Difference("lag", instant, place, subject, answer.lag, lag, proof))
    if answer.lag is not None and (stale := _is_stale(old, reading)) is not None:
        result.check(answer.lag_stale is stale, Difference("stale lag", instant, place, subject, answer, stale, proof))
    waits = _waits(reading, place, queue, instant)
    raws = [None if wait is None or wait.value is None else tuple(wait.value) for wait in waits]
    result.check(answer.wait in raws, Difference("waiting time", instant, place, subject, answer.wait, raws, proof))
    ages = [instant - wait.time for wait, raw in zip(waits, raws, strict=True) if wait and raw == answer.wait]
    if answer.wait is not None and None not in (stale := {_is_stale(age, reading) for age in ages}) and stale:
        mark = Difference("stale waiting time", instant, place, subject, answer.wait_stale, stale, proof)
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


# Rebalances


def _compare_rebalances(result: Result, reading: Reading, place: Place, rebalances: Iterable[ShownRebalance]) -> None:
    """Check that each hand-over belongs to a move of one rebalance, with its pause and the messages consumed again."""
    group, begins = reading.owners[place], reading.events[0].time + SETTLING_MS
    raw = [one for one in hand_overs(group) if one.taken > begins and not is_retry(one.queue)]
    covered: set[HandOver] = set()
    for rebalance in rebalances:
        if rebalance.start <= begins:
            continue
        within = [one for one in raw if rebalance.start <= one.taken <= rebalance.end]
        covered.update(within)
        _compare_rebalance(result, reading, place, rebalance, within)
        for move in rebalance.moves:
            if move.former is not None and move.new_owner is not None and not is_retry(move.queue):
                chain = [one for one in within if one.queue == move.queue]
                _compare_move(result, place, rebalance, move, chain)
    for hand_over in raw:
        answered, said = None, f"{hand_over.former} to {hand_over.new_owner}, {hand_over.pause_ms} ms"
        missed = Difference("hand-over in a rebalance", hand_over.taken, place, named(hand_over.queue), answered, said)
        result.check(hand_over in covered, missed)


def _compare_rebalance(
    result: Result, reading: Reading, place: Place, rebalance: ShownRebalance, within: list[HandOver]
) -> None:
    group = reading.owners[place]
    former = {one.queue: one.former for one in reversed(within)}
    new_owners = {one.queue: one.new_owner for one in within if _owner(group, one.queue, rebalance.settled) is not None}
    moved = sum(former[queue] != new_owner for queue, new_owner in new_owners.items())
    moved += sum(_is_first(group, queue, rebalance) for queue in reading.queues(place, rebalance.settled))
    start, subject = rebalance.start, f"rebalance {rebalance.rebalance_id[:8]}"
    count = Difference("queues moved", start, place, subject, rebalance.queues_moved, moved)
    result.check(rebalance.queues_moved == moved, count)
    if rebalance.converged:
        queues = reading.queues(place, rebalance.settled)
        held = {queue: _owner(group, queue, rebalance.settled) for queue in queues}
        unassigned = sorted(named(queue) for queue, owner in held.items() if owner is None)
        result.check(not unassigned, Difference("converged", start, place, subject, "converged", unassigned))


def _is_first(group: GroupOwners, queue: Queue, rebalance: ShownRebalance) -> bool:
    """Return whether a queue that never had an owner got its first one in a rebalance."""
    first = next((change.time for change in group.queues[queue].changes if change.client is not None), None)
    return first is not None and rebalance.start <= first <= rebalance.end


def _owner(group: GroupOwners, queue: Queue, instant: int) -> str | None:
    held = group.queues[queue].owners().at(instant)
    return held.value if held is not None else None


def _compare_move(
    result: Result, place: Place, rebalance: ShownRebalance, move: ShownMove, chain: list[HandOver]
) -> None:
    subject = f"{named(move.queue)} {move.former} to {move.new_owner} ({rebalance.rebalance_id[:8]})"
    raw = [(one.former, one.new_owner) for one in chain]
    fits = bool(chain) and (chain[0].former, chain[-1].new_owner) == (move.former, move.new_owner)
    result.check(fits, Difference("move", rebalance.start, place, subject, (move.former, move.new_owner), raw))
    if not fits:
        return
    taken, pauses = chain[-1].taken, [one.pause_ms for one in chain]
    if len(chain) > 1 and chain[0].stopped is not None and chain[-1].resumed is not None:
        pauses.append(chain[-1].resumed - chain[0].stopped)
    kind = "pause" if len(chain) == 1 else "pause, several hand-overs"
    result.check(move.pause_ms in pauses, Difference(kind, taken, place, subject, move.pause_ms, pauses))
    if len(chain) == 1:
        again, shown = chain[0].read_again(rebalance.settled), (move.read_again_min, move.read_again_max)
        result.check(_within(shown, again), Difference("read again", taken, place, subject, shown, again))


def _within(bounds: tuple[int | None, int | None], raw: tuple[int, int] | None) -> bool:
    """Return whether bounds fit: the lower one exactly, the upper one up to the batch of the last pull."""
    least, most = bounds
    if raw is None:
        return most is None
    return least == raw[0] and most is not None and raw[0] <= most <= raw[1] + PULL_BATCH_MAX


def _compare_polled_moves(result: Result, reading: Reading, place: Place, rebalances: Iterable[ShownRebalance]) -> None:
    """Compare moves by polls with the hand-overs by hooks; times may differ by one interval and an answer's time."""
    slack, begins = reading.slack, reading.events[0].time + SETTLING_MS
    raw = hand_overs(reading.truth[place])
    for rebalance in rebalances:
        for move in rebalance.moves:
            if None in (move.former, move.new_owner) or move.former == move.new_owner or is_retry(move.queue):
                continue
            near = [one for one in raw if one.queue == move.queue]
            near = [one for one in near if rebalance.start - slack <= one.taken <= rebalance.end + slack]
            if rebalance.start > begins:
                _compare_polled_move(result, slack, place, rebalance, move, near)


def _compare_polled_move(
    result: Result, slack: int, place: Place, rebalance: ShownRebalance, move: ShownMove, near: list[HandOver]
) -> None:
    subject = f"{named(move.queue)} {move.former} to {move.new_owner} ({rebalance.rebalance_id[:8]})"
    raw = [(one.former, one.new_owner) for one in near]
    fits = move.former in {former for former, _ in raw} and move.new_owner in {new_owner for _, new_owner in raw}
    start = rebalance.start
    result.check(fits, Difference("move by polls", start, place, subject, (move.former, move.new_owner), raw))
    if raw != [(move.former, move.new_owner)]:
        return
    [hand_over] = near
    close = (
        move.pause_ms is not None
        and hand_over.pause_ms is not None
        and abs(move.pause_ms - hand_over.pause_ms) <= slack
    )
    result.check(
        close, Difference("pause by polls", hand_over.taken, place, subject, move.pause_ms, hand_over.pause_ms)
    )
    again, bounds = hand_over.read_again(rebalance.settled), (move.read_again_min, move.read_again_max)
    if again is not None and bounds[0] is not None and bounds[1] is not None:
        bounded = bounds[0] <= again[1] + PULL_BATCH_MAX and again[0] <= bounds[1]
        result.check(bounded, Difference("read again by polls", hand_over.taken, place, subject, bounds, again))


# Rows


def _compare_progress(result: Result, reading: Reading, progress: Iterable[ShownPopped]) -> None:
    """Compare lag and what is in flight in every row about a popped queue."""
    of_queue: dict[tuple[Place, Queue], list[ShownPopped]] = defaultdict(list)
    for row in progress:
        if row.queue in reading.popped.queues().get(row.place, ()):
            of_queue[row.place, row.queue].append(row)
    for (place, queue), of_one in of_queue.items():
        of_one.sort(key=lambda row: row.time)
        times = list(dict.fromkeys(row.time for row in of_one))
        known = dict(zip(times, reading.popped.at(place, queue, *times), strict=True))
        for row in of_one:
            if raw := known[row.time]:
                value = Lag(row.lag, row.at_least, row.in_flight, row.in_flight_since)
                result.check(value in raw, Difference("popped row", row.time, place, named(queue), value, raw))


def _compare_rows(result: Result, reading: Reading, derived: Iterable[Row]) -> None:
    """Check that a row with a cause has the time of that event; rows of deadlines have no cause."""
    events = {event.name: event for event in reading.events}
    for row in derived:
        if not row.cause:
            continue
        event, place = events.get(row.cause), ("", row.table)
        known = Difference("row's cause exists", row.time, place, row.what, row.cause, None)
        result.check(event is not None, known)
        if event is not None and event.type != "TICK":
            off = row.time - event.time
            early = Difference("row before its evidence", row.time, place, row.what, off, event.type, event.name)
            result.check(off >= 0, early)
            stamped = event["time"] - event.time  # a row may be dated by the event's own time instead of the answer's
            result.check(off <= max(0, stamped), early._replace(kind="row after its evidence"))
