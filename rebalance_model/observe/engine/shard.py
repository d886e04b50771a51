"""One shard of the log: it takes rows in log order and returns conclusions in time order.

A shard is one partition: it has all events of its groups, and a copy of every broadcast. The result does not depend on
where the log is cut into batches. The runtime provides a store for the groups' blobs, and keeps the shard's own blob
and its buffer; the same class runs under Spark and in a plain loop.
"""

import msgspec

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.effects import AnyRow
from rebalance_model.observe.engine.ordering import Ordering
from rebalance_model.observe.engine.sources import Held, Waiting
from rebalance_model.observe.engine.timeline import Timeline, TimelineState
from rebalance_model.observe.events import AnyEvent, BrokerStatus, GroupEvent, Tick, source_of
from rebalance_model.observe.group_store import GroupStore
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.progress import ProgressLog, Unwritten
from rebalance_model.observe.state import STATE_VERSION, check_version

CHUNK_EVENTS = 500
"""The number of buffered events that are kept in one blob."""


class ShardState(msgspec.Struct):
    """What a shard keeps beside its groups and its buffer."""

    version: int = STATE_VERSION
    waiting: Waiting = msgspec.field(default_factory=Waiting)
    timeline: TimelineState = msgspec.field(default_factory=TimelineState)
    unwritten: Unwritten = {}


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(ShardState)
_HELD = msgspec.msgpack.Decoder(list[Held])


class Saved(msgspec.Struct, frozen=True):
    """A shard between two batches."""

    blob: bytes
    buffer: tuple[bytes, ...] = ()
    """The buffered events."""


class Shard:
    """Process the rows of one shard, in log order."""

    def __init__(self, saved: Saved | None, groups: GroupStore, policy: Policy, partition: int = 0) -> None:
        """Continue from what was saved.

        Args:
            saved: the shard after the batch before; None: it begins.
            groups: the store of its groups.
            policy: the thresholds.
            partition: the number of the shard; number 0 writes the rows about the cluster.

        Raises:
            StateVersionError: another release has saved it.
        """
        if saved is not None:
            check_version(saved.blob)
        state = _DECODER.decode(saved.blob) if saved is not None else ShardState()
        buffer = [one for chunk in saved.buffer for one in _HELD.decode(chunk)] if saved is not None else []
        self._state = state
        self._progress = ProgressLog(groups, policy, state.unwritten)
        self._ordering = Ordering(state.waiting, buffer, policy)
        self.timeline = Timeline(state.timeline, groups, policy, state.waiting.clocks, writes_cluster=partition == 0)

    def push(self, event: AnyEvent, stamp: int, size: int = 0, *, at_once: bool = False) -> list[AnyRow]:
        """Process the log's next event, and return the rows of all events that this releases.

        Args:
            event: the event.
            stamp: the log's own stamp of the row, epoch milliseconds.
            size: its bytes in the log.
            at_once: whether it arrived together with the event before it, see `Ordering.push`.
        """
        self._state.timeline.known_at = max(self._state.timeline.known_at, stamp)
        event = self._ordering.identified(event)
        late = self._ordering.push(event, stamp, size, at_once=at_once)
        seen, is_trusted = self._ordering.on_timeline(event)
        effects: list[AnyRow] = []
        for one in self._ordering.skipped():
            effects += self.timeline.skip(one)
        if isinstance(seen, GroupEvent) and is_trusted:
            effects += self._progress.observe(seen, self._state.waiting.highest)
        elif isinstance(seen, Tick):
            effects += self._progress.tick(self._state.waiting.highest)
        if late is not None and (is_trusted or not isinstance(late, BrokerStatus)):
            effects += self.timeline.skip(late)
            if isinstance(late, Tick) and self._ordering.is_late(source := source_of(late)):
                effects += self.timeline.note_behind(source)
        return effects + self._release() if isinstance(event, Tick) or self._ordering.is_full() else effects

    def finish(self) -> list[AnyRow]:
        """Fold all buffered events, as when every source has ended; return the rows."""
        self._ordering.end()
        return [*self._progress.tick(INT64_MAX), *self._release()]

    def flush(self) -> Saved:
        """Write the changed groups to the store; return the shard's own part."""
        self.timeline.flush()
        self._progress.flush()
        buffer = sorted(self._ordering.buffer)
        chunks = (buffer[i : i + CHUNK_EVENTS] for i in range(0, len(buffer), CHUNK_EVENTS))
        return Saved(_ENCODER.encode(self._state), tuple(_ENCODER.encode(chunk) for chunk in chunks))

    def _release(self) -> list[AnyRow]:
        """Fold what is complete, then advance time to the watermark."""
        effects: list[AnyRow] = []
        self.timeline.idle_limit = self._ordering.idle_limit
        for out in self._ordering.out_of_wait():
            self.timeline.note_out_of_wait(out)
        for event in self._ordering.released(self.timeline.followed):
            effects += self.timeline.fold(event)
        if self._state.waiting.started:
            effects += self.timeline.advance(self._state.waiting.watermark)
        for group in self.timeline.take_forgotten():
            self._progress.forget(group.cluster, group.group)
        return effects
