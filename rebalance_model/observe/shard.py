"""One shard of the log: many groups, the clocks of their sources, and the index of what is due.

A shard is one partition: all events of a group are in it, in order, with a copy of every broadcast. `Shard` folds
them one by one, so where the log is cut into batches does not show in the result. The runtime gives it a store for
the groups' blobs and keeps the shard's own blob; the same class runs under Spark and in a plain loop.
"""

import heapq
from collections.abc import Iterable
from functools import partial
from typing import Protocol

import msgspec

from rebalance_model.observe import absence, machine
from rebalance_model.observe.effects import AnyEffect, AnyRow
from rebalance_model.observe.events import AnyEvent, BrokerStatus, ClockSeen, GroupEvent, Tick, clock_of, instance_of
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.progress import ProgressLog
from rebalance_model.observe.sources import Sources
from rebalance_model.observe.state import GroupState, decode_group, encode_group


class GroupStore(Protocol):
    """Where the groups' blobs are kept between batches."""

    def get(self, key: str) -> bytes | None:
        """The blob of a group, None where there is none."""
        ...

    def put(self, key: str, blob: bytes) -> None:
        """Keep the blob."""
        ...

    def remove(self, key: str) -> None:
        """Forget the group."""
        ...


class GroupsInMemory(dict[str, bytes]):
    """A `GroupStore` that lasts as long as its process."""

    def put(self, key: str, blob: bytes) -> None:
        """Keep the blob."""
        self[key] = blob

    def remove(self, key: str) -> None:
        """Forget the group."""
        self.pop(key, None)


class _Fact(Protocol):
    """A step of `machine`, of a fact that it has already."""

    def __call__(self, state: GroupState, *, policy: Policy, clocks: machine.Clocks) -> list[AnyEffect]: ...


class ShardState(msgspec.Struct):
    """What a shard keeps beside its groups."""

    version: int = 1
    clocks: dict[str, int] = {}
    """The largest time that each clock's broadcasts have told."""
    deadlines: dict[str, dict[str, int]] = {}
    """For each clock, when each group has something due."""
    sources: Sources = msgspec.field(default_factory=Sources)
    boots: dict[str, int] = {}
    """By clock and broker: when it started, as that source last said."""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(ShardState)


class Shard:
    """Folds the events of one shard, in log order."""

    def __init__(self, blob: bytes | None, groups: GroupStore, policy: Policy) -> None:
        self._state = _DECODER.decode(blob) if blob is not None else ShardState()
        self._store = groups
        self._policy = policy
        self._progress = ProgressLog(groups, policy)
        self._policies: dict[str, Policy] = {}
        self._groups: dict[str, GroupState] = {}
        self._heaps: dict[str, list[tuple[int, str]]] = {}
        for clock, deadlines in self._state.deadlines.items():
            self._heaps[clock] = [(due, key) for key, due in deadlines.items()]
            heapq.heapify(self._heaps[clock])

    def fold(self, event: AnyEvent) -> list[AnyRow]:
        """Apply one event and return the rows that it, or the time that it lets pass, leads to."""
        progress = self._progress.observe(event) if isinstance(event, GroupEvent) else []
        return [*progress, *self._fold(event)]

    def _fold(self, event: AnyEvent) -> list[AnyEffect]:
        clock = clock_of(event)
        if isinstance(event, GroupEvent):
            state = self._group(event.cluster, event.group)
            self._note_absence(state, clock, event.time)
            state.heard[clock] = max(state.heard.get(clock, 0), event.time)
            effects = machine.step(state, event, self._policy_of(state), self._clocks_of(state))
            self._schedule(state)
            return effects
        if event.time - self._state.clocks.get(clock, event.time) > self._policy.source_silent_after:
            for key in self._told_by(clock):
                self._note_absence(self._known(key), clock, event.time)
        self._state.clocks[clock] = max(self._state.clocks.get(clock, 0), event.time)
        if isinstance(event, Tick):
            return self._hear(event, clock) + self._advance(event, clock)
        if isinstance(event, BrokerStatus):
            return self._boot(event, clock)
        if isinstance(event, ClockSeen):
            return []
        return self._tell(self._told_by(clock), partial(machine.note_loss, event=event))

    def flush(self) -> bytes:
        """Write the touched groups to the store; returns the shard's own blob."""
        for key, state in self._groups.items():
            self._store.put(key, encode_group(state))
        self._groups.clear()
        self._policies.clear()
        self._progress.flush()
        return _ENCODER.encode(self._state)

    def _known(self, key: str) -> GroupState:
        return self._groups.get(key) or self._group(*key.split("/", 1))

    def _group(self, cluster: str, group: str) -> GroupState:
        key = f"{cluster}/{group}"
        state = self._groups.get(key)
        if state is None:
            blob = self._store.get(key)
            state = decode_group(blob) if blob is not None else GroupState(cluster, group)
            self._groups[key] = state
        return state

    def _policy_of(self, state: GroupState) -> Policy:
        found = self._policies.get(state.key)
        if found is None:
            found = self._policies[state.key] = self._policy.of_group(state.group)
        return found

    def _clocks_of(self, state: GroupState) -> machine.Clocks:
        """How far each clock has come: by the broadcasts, which every shard gets, and by the group's own events.

        Those of other groups are left out: else it would matter which groups share the shard.
        """
        told, heard = self._state.clocks, state.heard
        for clock in [clock for clock, time in heard.items() if time <= told.get(clock, 0)]:
            del heard[clock]
        return {**told, **heard} if heard else told

    def _note_absence(self, state: GroupState, clock: str, now: int) -> None:
        """Tell the group if the source has stood before it says this."""
        silent_after = self._policy.source_silent_after
        before = max(self._state.clocks.get(clock, 0), state.heard.get(clock, 0))
        if before and now - before > silent_after and now - before > self._state.sources.patience(clock, silent_after):
            absence.note(state, clock, now - before, now)

    def _told_by(self, clock: str) -> list[str]:
        """The groups of which the source of this clock tells: each has a deadline by it (`machine.deadlines`)."""
        return sorted(self._state.deadlines.get(clock, ()))

    def _tell(self, keys: Iterable[str], fact: _Fact) -> list[AnyEffect]:
        effects: list[AnyEffect] = []
        for key in keys:
            state = self._known(key)
            effects += fact(state, policy=self._policy_of(state), clocks=self._clocks_of(state))
            self._schedule(state)
        return effects

    def _boot(self, event: BrokerStatus, clock: str) -> list[AnyEffect]:
        """A hook begins with it; a collector says it every round, and another time than before is a restart."""
        name = f"{clock} {event.broker}"
        before = self._state.boots.get(name)
        if event.boot_time in (None, before):
            return []
        self._state.boots[name] = event.boot_time
        effects = self._tell(self._told_by(clock), partial(machine.restart, event=event))
        if before is not None:
            effects += self._tell(self._told_by(clock), partial(machine.reboot, event=event))
        return effects

    def _hear(self, tick: Tick, clock: str) -> list[AnyEffect]:
        """Tell the groups concerned whose ticks have stopped, and who ticks again."""
        sources, silent_after = self._state.sources, self._policy.source_silent_after
        if sources.is_copy(clock, instance_of(tick.source_id)[1], tick.seq):
            return []
        effects: list[AnyEffect] = []
        if sources.hear(clock, tick.time, silent_after):
            effects += self._tell(self._told_by(clock), partial(machine.hear_again, tick=tick, clock=clock))
        for silent in sources.fallen_silent(silent_after):
            effects += self._tell(self._told_by(silent), partial(machine.miss, tick=tick, silent=silent))
        return effects

    def _advance(self, tick: Tick, clock: str) -> list[AnyEffect]:
        """Let time pass up to the tick, and no further: the same tick once more lets none pass."""
        effects: list[AnyEffect] = []
        heap = self._heaps.get(clock, [])
        while heap and heap[0][0] <= tick.time:
            due, key = heapq.heappop(heap)
            if self._state.deadlines.get(clock, {}).get(key) != due:
                continue  # rescheduled since
            state = self._known(key)
            effects += machine.advance(state, tick, self._policy_of(state), self._clocks_of(state))
            if clock == state.clock and machine.is_forgotten(state, tick.time, self._policy_of(state)):
                self._forget(state)
            else:
                self._schedule(state)
        return effects

    def _forget(self, state: GroupState) -> None:
        """At a tick, not at the end of a batch, so that it does not depend on where the log is cut."""
        del self._groups[state.key]
        for deadlines in self._state.deadlines.values():
            deadlines.pop(state.key, None)
        self._store.remove(state.key)
        self._progress.forget(state.cluster, state.group)

    def _schedule(self, state: GroupState) -> None:
        dues = machine.deadlines(state, self._policy_of(state))
        for clock, deadlines in self._state.deadlines.items():
            if clock not in dues:
                deadlines.pop(state.key, None)
        for clock, due in dues.items():
            deadlines = self._state.deadlines.setdefault(clock, {})
            if deadlines.get(state.key) != due:
                deadlines[state.key] = due
                heapq.heappush(self._heaps.setdefault(clock, []), (due, state.key))
