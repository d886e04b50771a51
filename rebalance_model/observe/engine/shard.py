"""One shard of the log: it takes rows in log order and returns conclusions in time order.

A shard is one partition: it has all events of its groups, and a copy of every broadcast. The result does not depend on
where the log is cut into batches. The runtime provides a store for the groups' blobs, and keeps the shard's own blob
and its buffer; the same class runs under Spark and in a plain loop.

Give each source a place in the shard, or refuse it: who can write to the log can invent names without end.

All of a shard's work for a tick, and what it keeps of its sources, grows with their number. So there are `SOURCES_MAX`
places. When all are taken, a new source gets the place of the one that has been silent for longest, if that is long
enough: as long as a source is new (`NEW_UNTIL`) for one that never sent ticks for longer than that, else as long as a
broker is away that is gone (`Policy.broker_gone_after`). Until there is one, the events of the new source are refused.

So a source that sends ticks keeps its place, whatever is invented, and invented names, which soon are silent, leave
theirs to the next that come; honest newcomers are among them, and stay.
"""

from functools import partial

import msgspec

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.effects import AnyRow
from rebalance_model.observe.engine.ordering import Ordering
from rebalance_model.observe.engine.salvage import Restored, Saved, ShardState, restored
from rebalance_model.observe.engine.sources import NEW_UNTIL, Source, Waiting
from rebalance_model.observe.engine.timeline import Timeline
from rebalance_model.observe.events import AnyEvent, BrokerStatus, GroupEvent, Tick, source_of
from rebalance_model.observe.group_store import KEY_PREFIX, GroupStore
from rebalance_model.observe.losses import Losses, Lost
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.progress import ProgressLog

SOURCES_MAX = 2_000
"""The sources of a shard. It has a copy of every broadcast, so these are all collectors and hooks of all clusters."""
REFUSED = f"the shard has {SOURCES_MAX:,} sources, its limit, and none of them has been silent for long"
"""Why events of a new source are refused."""


class Admission:
    """Decides which source gives its place to a new one."""

    def __init__(self, state: Waiting, policy: Policy) -> None:
        self._state = state
        self._policy = policy
        self._none_until = 0
        """The stopwatch until which no source gives its place."""

    @property
    def is_full(self) -> bool:
        """Return whether all places are taken."""
        return len(self._state.sources) >= SOURCES_MAX

    def leaving(self) -> str | None:
        """Return the source that gives its place to a new one; None: there is none yet."""
        state = self._state
        if state.elapsed < self._none_until:
            return None
        leaves, last = min((self._leaves_at(source), name) for name, source in state.sources.items())
        if leaves > state.elapsed:
            self._none_until = leaves  # later, if it ticks again
            return None
        return last

    def _leaves_at(self, source: Source) -> int:
        """Return the stopwatch from which a source gives its place, if it sends no tick until then."""
        if source.tick_elapsed - source.known_elapsed < NEW_UNTIL:
            return source.tick_elapsed + NEW_UNTIL
        return source.tick_elapsed + self._policy.broker_gone_after


CHUNK_EVENTS = 500
"""The number of buffered events that are kept in one blob."""


_ENCODER = msgspec.msgpack.Encoder()


class Shard:
    """Process the rows of one shard, in log order."""

    def __init__(
        self,
        saved: Saved | None,
        groups: GroupStore,
        policy: Policy,
        partition: int = 0,
        *,
        contains_failures: bool = False,
    ) -> None:
        """Continue from what was saved.

        Args:
            saved: the shard after the batch before; None: it begins.
            groups: the store of its groups.
            policy: the thresholds.
            partition: the number of the shard; number 0 writes the rows about the cluster.
            contains_failures: whether a group whose state can't be read, or whose event can't be processed, begins
                again, and `take_lost` returns the failure; otherwise it is raised.

        Raises:
            StateVersionError: another release has saved it.
            UnreadableStateError: it can't be read, and failures are not contained.
        """
        self._losses = losses = Losses(contained=contains_failures)
        was = restored(saved, losses) if saved is not None else Restored(ShardState(), [])
        self._state = state = was.state
        self._admission = Admission(state.waiting, policy)
        self._ordering = Ordering(state.waiting, was.buffer, policy)
        clocks = state.waiting.clocks
        self.timeline = Timeline(state.timeline, groups, policy, clocks, losses, writes_cluster=partition == 0)
        # A method of this shard would be a cycle: the shard and its groups would stay until garbage is collected.
        self._progress = ProgressLog(groups, policy, state.unwritten, partial(_lose_progress, losses, self.timeline))
        if was.lost:
            keys = [key.removeprefix("/") for key in groups if not key.startswith(KEY_PREFIX)]
            self.timeline.index_groups(keys, f"lost: {was.lost}")
            state.waiting.watermark = max(state.waiting.watermark, state.timeline.now)

    def push(self, event: AnyEvent, stamp: int, size: int = 0, *, at_once: bool = False) -> list[AnyRow]:
        """Process the log's next event, and return the rows of all events that this releases.

        Args:
            event: the event.
            stamp: the log's own stamp of the row, epoch milliseconds.
            size: its bytes in the log.
            at_once: whether it arrived together with the event before it, see `Ordering.push`.
        """
        timeline, effects = self._state.timeline, list[AnyRow]()
        timeline.known_at = max(timeline.known_at, stamp)
        if isinstance(event, GroupEvent) and self._ordering.push_usual(event, size):
            effects += self._progress.observe(event, self._state.waiting.highest)
            return effects
        if source_of(event) not in self._state.waiting.sources and self._admission.is_full:
            leaves = self._admission.leaving()
            if leaves is None:
                self._losses.refuse(event, REFUSED)
                return []
            effects += self._forget(leaves)
        try:
            effects += self._pushed(event, stamp, size, at_once=at_once)
        except Exception as error:  # noqa: BLE001  `_lose` raises it where failures are not contained
            self._lose(error, event)
        return effects + self._release() if isinstance(event, Tick) or self._ordering.is_full() else effects

    def _pushed(self, event: AnyEvent, stamp: int, size: int, *, at_once: bool) -> list[AnyRow]:
        event = self._ordering.identified(event)
        late = self._ordering.push(event, stamp, size, at_once=at_once)
        seen, is_trusted = self._ordering.on_timeline(event)
        effects = [*self._skipped(), *self._observe_believed()]
        if isinstance(seen, GroupEvent) and is_trusted:
            effects += self._progress.observe(seen, self._state.waiting.highest)
        elif isinstance(seen, Tick):
            effects += self._progress.tick(self._state.waiting.highest)
        if late is not None and (is_trusted or not isinstance(late, BrokerStatus)):
            effects += self.timeline.skip(late)
            if isinstance(late, Tick) and self._ordering.is_late(source := source_of(late)):
                effects += self.timeline.note_behind(source)
        return effects

    def _observe_believed(self) -> list[AnyRow]:
        """Observe the quantities of a source that was doubted; those from before the doubt are known by their seq."""
        effects: list[AnyRow] = []
        for one in self._ordering.believed():
            seen, _ = self._ordering.on_timeline(one)
            if isinstance(seen, GroupEvent):
                effects += self._progress.observe(seen, self._state.waiting.highest)
        return effects

    def _skipped(self) -> list[AnyRow]:
        """Skip the events in the buffer that are not to be folded any more."""
        effects: list[AnyRow] = []
        for one in self._ordering.skipped():
            with self._losses.containing(one):
                effects += self.timeline.skip(one)
        return effects

    def _forget(self, source: str) -> list[AnyRow]:
        """Forget a source that gives its place to another one."""
        self._ordering.forget(source)
        effects = self._skipped()
        with self._losses.containing():
            rows, brokers_by_group = self.timeline.forget_source(source)
            effects += rows
            for group, brokers in brokers_by_group.items():
                self._progress.forget_source(group, source, brokers)
        return effects

    def finish(self) -> list[AnyRow]:
        """Fold all buffered events, as when every source has ended; return the rows."""
        self._ordering.end()
        return [*self._observe_believed(), *self._progress.tick(INT64_MAX), *self._release()]

    def flush(self) -> Saved:
        """Write the changed groups to the store; return the shard's own part."""
        self._progress.flush()
        self.timeline.flush()
        buffer = sorted(self._ordering.buffer)
        chunks = (buffer[i : i + CHUNK_EVENTS] for i in range(0, len(buffer), CHUNK_EVENTS))
        return Saved(_ENCODER.encode(self._state), tuple(_ENCODER.encode(chunk) for chunk in chunks))

    def known_at(self, cluster: str, group: str = "") -> int | None:
        """Return by which stamp of the log the first event that waits is folded at the latest; None: none waits.

        Args:
            cluster: the cluster whose events are meant.
            group: the group whose events are meant; empty: those of the cluster itself.
        """
        times = [
            time
            for time, _, _, _, event in self._ordering.buffer
            if event.cluster == cluster and (event.group if isinstance(event, GroupEvent) else "") == group
        ]
        return self._ordering.known_at(min(times)) if times else None

    def take_lost(self) -> list[Lost]:
        """Return the failures that were contained since the last call."""
        return self._losses.take()

    def _lose(self, error: Exception, event: AnyEvent | None) -> None:
        """Note a failure, which costs the event, and the source whose state led to it; None: whatever event."""
        self._losses.note("EVENT", "", error, event)
        self._ordering.restart_broken()

    def _release(self) -> list[AnyRow]:
        """Fold what is complete, then advance time to the watermark; an event that fails costs itself."""
        effects: list[AnyRow] = []
        try:
            self.timeline.idle_limit = self._ordering.idle_limit
            for out in self._ordering.out_of_wait():
                self.timeline.note_out_of_wait(out)
            for event in self._ordering.released(self.timeline.followed):
                try:
                    effects += self.timeline.fold(event)
                except Exception as error:  # noqa: BLE001  it is raised where failures are not contained
                    self._losses.note("EVENT", "", error, event)
            if self._state.waiting.started:
                effects += self.timeline.advance(self._state.waiting.watermark)
        except Exception as error:  # noqa: BLE001  `_lose` raises it where failures are not contained
            self._lose(error, None)
        for group in self.timeline.take_forgotten():
            self._progress.forget(group.cluster, group.group)
        return effects


def _lose_progress(
    losses: Losses, timeline: Timeline, key: str, error: Exception, value: bytes | GroupEvent | None
) -> None:
    reason = losses.note("PROGRESS", key, error, value)
    timeline.note_lost(key, "PROGRESS", reason)
