"""Stamp events with `time` and `seq`, and queue them for the log."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

import msgspec

from rebalance_model.observe.events import Event
from streaming.base.limits import EVENT_BYTES, REMARK_CHARACTERS
from streaming.base.times import now_ms
from streaming.log.rows import encode

E = TypeVar("E", bound=Event)
Sink = Callable[[list[Event]], None]
"""Accepts events in order and keeps them; raises if it can't."""


class UnsendableError(ValueError):
    """An answer can't become a valid event: a value is out of its range, or the event exceeds the size of a log row."""


class Emitter:
    """Makes valid events, stamped in the order in which they are sent.

    Stamping and queueing are one step of the event loop, so nothing runs between them: ``time`` never decreases,
    ``seq`` has no gaps, and a TICK follows every event that was stamped before it.
    """

    def __init__(self, instance: str, clock: Callable[[], int] = now_ms) -> None:
        """Begin an incarnation of the source ``instance``; its id contains the start time."""
        self.source_id = f"{instance}@{clock()}"
        self._clock = clock
        self._time = 0
        self._seq: defaultdict[str, int] = defaultdict(int)
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()

    def emit(self, kind: type[E], *, cluster: str, group: str | None = None, **fields: object) -> E:
        """Stamp an event and queue it.

        Raises:
            UnsendableError: the event is invalid; nothing was queued and no ``seq`` used.
        """
        key = "" if group is None else f"{cluster}/{group}"
        seq = self._seq[key] + 1
        stamp = max(self._time, self._clock())
        stamped = {
            **fields,
            **({} if group is None else {"group": group}),
            "type": kind.__struct_config__.tag,
            "time": stamp,
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
            msg = f"the answer gives an event of {size} bytes; the log accepts {EVENT_BYTES}"
            raise UnsendableError(msg)
        self._time, self._seq[key] = stamp, seq
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
