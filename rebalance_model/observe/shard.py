"""One shard of the log: many groups, the clocks of their sources, and the index of what is due.

A shard is one partition: all events of a group are in it, in order, with a copy of every broadcast. `Shard` folds
them one by one, so where the log is cut into batches does not show in the result. The runtime gives it a store for
the groups' blobs and keeps the shard's own blob; the same class runs under Spark and in a plain loop.
"""

import heapq
from typing import Protocol

import msgspec

from rebalance_model.observe import machine
from rebalance_model.observe.effects import AnyEffect
from rebalance_model.observe.events import Answer, AnyEvent, Tick, clock_of
from rebalance_model.observe.policy import Policy
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


class ShardState(msgspec.Struct):
    """What a shard keeps beside its groups."""

    version: int = 1
    clocks: dict[str, int] = {}
    """The largest time folded of each clock."""
    deadlines: dict[str, dict[str, int]] = {}
    """For each clock, when each group has something due."""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(ShardState)


class Shard:
    """Folds the events of one shard, in log order."""

    def __init__(self, blob: bytes | None, groups: GroupStore, policy: Policy) -> None:
        self._state = _DECODER.decode(blob) if blob is not None else ShardState()
        self._store = groups
        self._policy = policy
        self._groups: dict[str, GroupState] = {}
        self._heaps: dict[str, list[tuple[int, str]]] = {}
        for clock, deadlines in self._state.deadlines.items():
            self._heaps[clock] = [(due, key) for key, due in deadlines.items()]
            heapq.heapify(self._heaps[clock])

    def fold(self, event: AnyEvent) -> list[AnyEffect]:
        """Apply one event and return what it, or the time that it lets pass, leads to."""
        clock = clock_of(event)
        now = max(self._state.clocks.get(clock, 0), event.time)
        self._state.clocks[clock] = now
        if isinstance(event, Answer):
            state = self._group(event.cluster, event.group)
            effects = machine.step(state, event, self._policy)
            self._schedule(state)
            return effects
        if isinstance(event, Tick):
            return self._advance(clock, now, cause=f"{event.source_id}||{event.seq}")
        return []

    def flush(self) -> bytes:
        """Write the touched groups to the store; returns the shard's own blob."""
        for key, state in self._groups.items():
            self._store.put(key, encode_group(state))
        self._groups.clear()
        return _ENCODER.encode(self._state)

    def _group(self, cluster: str, group: str) -> GroupState:
        key = f"{cluster}/{group}"
        state = self._groups.get(key)
        if state is None:
            blob = self._store.get(key)
            state = decode_group(blob) if blob is not None else GroupState(cluster, group)
            self._groups[key] = state
        return state

    def _advance(self, clock: str, now: int, *, cause: str) -> list[AnyEffect]:
        effects: list[AnyEffect] = []
        heap = self._heaps.get(clock, [])
        while heap and heap[0][0] <= now:
            due, key = heapq.heappop(heap)
            if self._state.deadlines.get(clock, {}).get(key) != due:
                continue  # rescheduled since
            state = self._group(*key.split("/", 1))
            effects += machine.advance(state, now, self._policy, cause)
            if machine.is_forgotten(state, now, self._policy):
                self._forget(state)
            else:
                self._schedule(state)
        return effects

    def _forget(self, state: GroupState) -> None:
        """At a tick, not at the end of a batch, so that it does not depend on where the log is cut."""
        del self._groups[state.key], self._state.deadlines[state.clock][state.key]
        self._store.remove(state.key)

    def _schedule(self, state: GroupState) -> None:
        due = machine.next_deadline(state, self._policy)
        for clock, deadlines in self._state.deadlines.items():
            if clock != state.clock:
                deadlines.pop(state.key, None)
        if due is None or self._state.deadlines.setdefault(state.clock, {}).get(state.key) == due:
            return
        self._state.deadlines[state.clock][state.key] = due
        heapq.heappush(self._heaps.setdefault(state.clock, []), (due, state.key))
