"""Lag and waiting time: at an instant, those of the last answer not after it.

Lag is the broker's newest offset minus the committed one (CONSUME_STATS). A broker reports 0 if none is stored, so the
lag is unknown until a commit was seen. The waiting time of the next message is that of CONSUME_TIME_SPAN. CONSUME_STATS
has an upper bound, if there is lag: the time since the last consumed message was stored. It is used if there is no such
answer, or only a stale one that is older.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tests.audit.telemetry import Event, Place, Queue, Series, queue_of


class Wait(NamedTuple):
    """The waiting time of the next message, milliseconds; `at_most` if it is only an upper bound."""

    ms: int
    at_most: bool


@dataclass(frozen=True)
class Quantities:
    """Lag and waiting time of each queue, as series; None: unknown by this answer."""

    lags: dict[tuple[Place, Queue], Series[int | None]]
    spans: dict[tuple[Place, Queue], Series[Wait | None]]
    bounds: dict[tuple[Place, Queue], Series[Wait | None]]
    offsets: dict[tuple[Place, Queue], Series[tuple[int, int]]]
    """The newest offset and the commit of each answer."""


def quantities(events: Iterable[Event]) -> Quantities:
    """Evaluate all answers about offsets and waiting times."""
    series = Quantities(*(defaultdict(Series) for _ in range(4)))
    committed: set[tuple[Place, Queue]] = set()
    firsts: dict[tuple[Place, Queue], int] = {}
    for event in events:
        if event.type == "CONSUME_TIME_SPAN":
            for part in event.get("queues", ()):
                wait = Wait(max(0, part["delay_time"]), at_most=False)
                series.spans[event.place, queue_of(part["mq"])].add(event.time, wait)
        elif event.type == "CONSUMER_RUNNING_INFO":
            _note_firsts(event, committed, firsts)
        elif event.type == "CONSUME_STATS":
            _note_answer(event, series, committed, firsts)
        elif event.type == "UPDATE_CONSUMER_OFFSET" and not event.get("code"):
            committed.add((event.place, queue_of(event.fields)))
    return series


def _note_answer(
    event: Event, series: Quantities, committed: set[tuple[Place, Queue]], firsts: dict[tuple[Place, Queue], int]
) -> None:
    for part in event.get("queues", ()):
        place = event.place, queue_of(part["mq"])
        if part["consumer_offset"] > 0:
            committed.add(place)
        offset = part["consumer_offset"] if place in committed else firsts.get(place)
        lag = max(0, part["broker_offset"] - offset) if offset is not None else None
        if not part["broker_offset"]:
            lag = 0  # nothing was ever sent
        series.lags[place].add(event.time, lag)
        series.offsets[place].add(event.time, (part["broker_offset"], part["consumer_offset"]))
        series.bounds[place].add(event.time, _bound(event.time, lag, part.get("last_time", 0)))


def _note_firsts(event: Event, committed: set[tuple[Place, Queue]], firsts: dict[tuple[Place, Queue], int]) -> None:
    """Note the first message that a client has of each queue without a commit: the queue's position."""
    for part in event.get("queues") or ():
        place = event.place, queue_of(part["mq"])
        kind = "transaction" if part.get("transaction_count") else "cached"
        if place in committed or not part.get(f"{kind}_count") or part.get("dropped"):
            firsts.pop(place, None)
        else:
            firsts[place] = part.get(f"{kind}_min", 0)


def _bound(answered: int, lag: int | None, last_time: int) -> Wait | None:
    if lag == 0:
        return Wait(0, at_most=False)
    return Wait(max(0, answered - last_time), at_most=True) if lag and last_time else None
