"""Compare rows of tables with their events: the progress of popped queues, and the time of every row."""

from collections import defaultdict
from collections.abc import Iterable

from tests.audit.answers import Row, ShownProgress
from tests.audit.differences import Difference, Result
from tests.audit.hook_calls import Seen
from tests.audit.popped import Lag
from tests.audit.reading import Reading, named
from tests.audit.telemetry import Place, Queue


def compare_progress(result: Result, reading: Reading, progress: Iterable[ShownProgress]) -> None:
    """Compare lag and what is in flight in every row about a popped queue, and all that a hook's row has of others."""
    of_queue: dict[tuple[Place, Queue], list[ShownProgress]] = defaultdict(list)
    for row in progress:
        if row.queue in reading.popped.queues().get(row.place, ()):
            of_queue[row.place, row.queue].append(row)
        elif row.by_hook:
            _compare_hook_row(result, reading, row)
    for (place, queue), of_one in of_queue.items():
        of_one.sort(key=lambda row: row.time)
        times = list(dict.fromkeys(row.time for row in of_one))
        known = dict(zip(times, reading.popped.at(place, queue, *times), strict=True))
        for row in of_one:
            if raw := known[row.time]:
                value = Lag(row.lag, row.at_least, row.in_flight, row.in_flight_since)
                result.check(value in raw, Difference("popped row", row.time, place, named(queue), value, raw))


def _compare_hook_row(result: Result, reading: Reading, row: ShownProgress) -> None:
    """Compare a hook's row with the calls until then; a newest offset that is below the others is left out."""
    ours = {name: getattr(row, name) for name in _OF_HOOK} | {"at_least": row.at_least}
    raw = [_values(seen, row.former or 0) for seen in reading.hook_calls.at(row.place, row.queue, row.time)]
    nearest = min(raw, key=lambda one: sum(one[name] != ours[name] for name in ours))
    for name in ours:
        differs = Difference(f"hook row: {name}", row.time, row.place, named(row.queue), ours[name], nearest[name])
        result.check(ours[name] == nearest[name], differs)


def _values(seen: Seen, former: int) -> dict[str, int | bool | None]:
    lag, at_least = seen.lag(former)
    is_newest = seen.newest is not None and seen.newest >= max(seen.commit or 0, seen.pull or 0)
    known = seen._replace(newest=seen.newest if is_newest else None)
    return {name: getattr(known, name) for name in _OF_HOOK if name != "lag"} | {"lag": lag, "at_least": at_least}


_OF_HOOK = ("newest", "commit", "pull", "lag", "commit_at", "pull_at", "lock_at")


def compare_rows(result: Result, reading: Reading, derived: Iterable[Row]) -> None:
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
