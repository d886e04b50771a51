"""Lag and waiting time: for an instant, those of the last answer not after it.

Lag is the broker's newest offset less the committed one (CONSUME_STATS). A broker shows 0 where none is stored, so the
lag is not known until a commit was seen. The next message has waited as long as CONSUME_TIME_SPAN says; without such
answers at most since the last consumed message was stored, where any waits.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tests.audit.telemetry import Event, Place, Queue, Series, queue_of


class Wait(NamedTuple):
    """How long the next message has waited, milliseconds; `at_most` where only a bound is known."""

    ms: int
    at_most: bool


@dataclass(frozen=True)
class Quantities:
    """What is known of each queue, as series; None: the answer is there, and does not tell it."""

    lags: dict[tuple[Place, Queue], Series[int | None]]
    waits: dict[tuple[Place, Queue], Series[Wait | None]]


def quantities(events: Iterable[Event]) -> Quantities:
    """Read every answer about offsets."""
    lags: dict[tuple[Place, Queue], Series[int | None]] = defaultdict(Series)
    waits: dict[tuple[Place, Queue], Series[Wait | None]] = defaultdict(Series)
    spans: set[Place] = set()
    committed: set[tuple[Place, Queue]] = set()
    for event in events:
        if event.type == "CONSUME_TIME_SPAN":
            spans.add(event.place)
            for part in event.get("queues", ()):
                waits[event.place, queue_of(part["mq"])].add(
                    event.time, Wait(max(0, part["delay_time"]), at_most=False)
                )
        elif event.type == "UPDATE_CONSUMER_OFFSET" and not event.get("code"):
            committed.add((event.place, queue_of(event.fields)))
        elif event.type == "CONSUME_STATS":
            for part in event.get("queues", ()):
                place = event.place, queue_of(part["mq"])
                if part["consumer_offset"] > 0:
                    committed.add(place)
                lag = max(0, part["broker_offset"] - part["consumer_offset"]) if place in committed else None
                lags[place].add(event.time, lag)
                if event.place not in spans:
                    waits[place].add(event.time, _bound(event.time, lag, part.get("last_time", 0)))
    return Quantities(dict(lags), dict(waits))


def _bound(answered: int, lag: int | None, last_time: int) -> Wait | None:
    if lag == 0:
        return Wait(0, at_most=False)
    return Wait(max(0, answered - last_time), at_most=True) if lag and last_time else None
