"""Stamp events with `time` and `seq`, and queue them for the log.

The clock of the stamps is monotonic, and begins at the time of the host: so durations are right, and the order is that
of the stamps, whatever is done to the host's clock. Where that is set, as by NTP after a boot with a wrong time, or
runs on while the monotonic one stops, as in a suspended machine, this clock is set, too, and the source reports
the step.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

import msgspec

from rebalance_model.observe.events import ClockStep, Event
from streaming.base.limits import EVENT_BYTES, REMARK_CHARACTERS
from streaming.base.times import monotonic_ms, now_ms
from streaming.log.rows import encode

STEP_MS = 250
"""A difference between the two clocks that counts as a step; a smaller one is not followed. Both run at the same rate,
because NTP disciplines that of both."""
READ_MS_MAX = 25
"""The two clocks are compared only if they were read within this time."""


class SourceClock:
    """A monotonic clock that shows the host's time, and is set only by `follow`."""

    def __init__(self, wall: Callable[[], int] = now_ms, monotonic: Callable[[], int] = monotonic_ms) -> None:
        """Begin at the time of the host's clock; ``monotonic`` is one that nobody sets. Both are milliseconds."""
        self._wall = wall
        self._monotonic = monotonic
        self._zero = wall() - monotonic()
        self._set_by = 0
        self.steps = 0
        """The number of times that it was set."""

    def now(self) -> int:
        """Return the time by which events are stamped; epoch milliseconds."""
        return self.time_of(self.steady())

    def steady(self) -> int:
        """Return the time as if it had never been set, for durations, and for `time_of` later; epoch milliseconds."""
        return self._zero + self._monotonic()

    def time_of(self, steady: int) -> int:
        """Return a time of `steady` by the clock as it is set now; epoch milliseconds."""
        return steady + self._set_by

    def follow(self) -> int:
        """Set this clock to the host's if that was set; return by how much, milliseconds, or 0."""
        before = self.now()
        wall = self._wall()
        after = self.now()
        step = wall - after
        if after - before > READ_MS_MAX or abs(step) < STEP_MS:
            return 0
        self._set_by += step
        self.steps += 1
        return step


E = TypeVar("E", bound=Event)
Sink = Callable[[list[Event]], None]
"""Accepts events in order and keeps them; raises if it can't."""


class UnsendableError(ValueError):
    """An answer can't become a valid event: a value is out of its range, or the event exceeds the size of a log row."""


class Emitter:
    """Makes valid events, stamped in the order in which they are sent.

    Stamping and queueing are one step of the event loop, so nothing runs between them: ``seq`` has no gaps, and a TICK
    follows every event that was stamped before it. ``time`` decreases only where the host's clock was set back: a
    CLOCK_STEP in every cluster says so before the first event that is stamped by the clock as it is set then.
    """

    def __init__(
        self, instance: str, clock: Callable[[], int] = now_ms, monotonic: Callable[[], int] = monotonic_ms
    ) -> None:
        """Begin an incarnation of a source: its id has its name and its start time."""
        self.clock = SourceClock(clock, monotonic)
        self.source_id = f"{instance}@{self.clock.now()}"
        self._clusters: dict[str, None] = {}
        """Clusters that have events by the clock as it was set before."""
        self._seq: defaultdict[str, int] = defaultdict(int)
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()

    def emit(self, kind: type[E], *, cluster: str, group: str | None = None, **fields: object) -> E:
        """Stamp an event and queue it.

        Raises:
            UnsendableError: the event is invalid; nothing was queued and no ``seq`` used.
        """
        self.follow_clock()
        return self.emit_as_set(kind, cluster=cluster, group=group, **fields)

    def follow_clock(self) -> None:
        """Set the clock by which events are stamped if that of the host was set, and report it in every cluster."""
        if step := self.clock.follow():
            for cluster in self._clusters:
                self.emit_as_set(ClockStep, cluster=cluster, step=step)

    def emit_as_set(self, kind: type[E], *, cluster: str, group: str | None = None, **fields: object) -> E:
        """Emit an event whose times were just brought to the clock: if that were followed again, they might be off."""
        key = "" if group is None else f"{cluster}/{group}"
        seq = self._seq[key] + 1
        stamped = {
            **fields,
            **({} if group is None else {"group": group}),
            "type": kind.__struct_config__.tag,
            "time": self.clock.now(),
            "cluster": cluster,
            "source": "poll",
            "source_id": self.source_id,
            "seq": seq,
        }
        try:
            event = msgspec.convert(stamped, type=kind, strict=False)
            size = len(encode(event))
        except (msgspec.ValidationError, UnicodeEncodeError, OverflowError, RecursionError) as error:
            raise UnsendableError(str(error)[:REMARK_CHARACTERS]) from None
        if size > EVENT_BYTES:
            raise UnsendableError(f"the answer gives an event of {size} bytes; the log accepts {EVENT_BYTES}")
        self._clusters[cluster] = None
        self._seq[key] = seq
        self._queue.put_nowait(event)
        return event

    async def send(self, sink: Sink) -> None:
        """Pass events to the sink, in order and in batches, until `finish`; an exception of the sink ends it."""
        while True:
            batch = [await self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get_nowait())
            events = [event for event in batch if event is not None]
            await asyncio.to_thread(sink, events)
            if len(events) < len(batch):
                return

    def finish(self) -> None:
        """Let `send` return after all events queued so far."""
        self._queue.put_nowait(None)
