"""Write the progress rows of all groups of a shard, and keep the states that they are made from."""

from collections.abc import Callable, Collection, Mapping
from itertools import takewhile
from typing import Never, TypeAlias, cast

from rebalance_model.observe.effects import QueueProgress
from rebalance_model.observe.events import (
    AckMessage,
    ChangeMessageInvisibletime,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeTimeSpan,
    GroupEvent,
    LockBatchMq,
    PopMessage,
    PoppedEvent,
    PullMessage,
    TopicStats,
    UpdateConsumerOffset,
    instance_of,
)
from rebalance_model.observe.group_store import KEY_PREFIX, GroupStore
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.progress.answers import on_running_info, on_stats, on_time_span, on_topic_stats
from rebalance_model.observe.progress.hooks import (
    HOOK_ROW_EVERY,
    on_commit,
    on_locks,
    on_popped,
    on_pull,
    pending_hook_row,
)
from rebalance_model.observe.progress.state import ProgressState, decode_progress, encode_progress
from rebalance_model.observe.state import Sequence, UnreadableStateError, note_sequence, popped_queues

Unwritten: TypeAlias = dict[tuple[str, str, str], int]
"""By cluster, group and broker of a hook that has events since its last row: the highest tick at the first of them."""
OnLost: TypeAlias = Callable[[str, Exception, bytes | GroupEvent | None], None]
"""Called with a group's key, the error, and the blob or the event that led to it."""
_ANSWERS: Mapping[type[GroupEvent], Callable[[ProgressState, Never, Policy], list[QueueProgress]]] = {
    ConsumerRunningInfo: on_running_info,
    ConsumeStats: on_stats,
    ConsumeTimeSpan: on_time_span,
    TopicStats: on_topic_stats,
}
_CALLS: Mapping[type[GroupEvent], Callable[[ProgressState, Never], list[QueueProgress]]] = {
    PullMessage: on_pull,
    UpdateConsumerOffset: on_commit,
    LockBatchMq: on_locks,
    PopMessage: on_popped,
    AckMessage: on_popped,
    ChangeMessageInvisibletime: on_popped,
}
"""The function for each kind of event that carries quantities; each takes its own kind."""


class ProgressLog:
    """Write the rows of all groups of a shard, and keep their states in the store of the groups."""

    def __init__(self, store: GroupStore, policy: Policy, unwritten: Unwritten, on_lost: OnLost) -> None:
        """Continue from the stored states.

        Args:
            store: where the states are kept.
            policy: for the poll intervals.
            unwritten: what the shard keeps of hooks' pending rows; changed in place.
            on_lost: called with a group whose quantities begin again; it raises where failures are not contained.
        """
        self._store = store
        self._policy = policy
        self._unwritten = unwritten
        self._on_lost = on_lost
        self._states: dict[str, ProgressState] = {}

    def observe(self, event: GroupEvent, now: int) -> list[QueueProgress]:
        """Process an event when it arrives.

        Args:
            event: any event of a group.
            now: the highest tick so far.

        Returns:
            The resulting rows.
        """
        kind = type(event)
        if kind not in _CALLS and kind not in _ANSWERS:
            return []
        state = self._states.get(f"{KEY_PREFIX}{event.cluster}/{event.group}") or self._state(
            event.cluster, event.group
        )
        try:
            rows = observe(state, event, self._policy)
        except Exception as error:  # noqa: BLE001  it is raised where failures are not contained
            self._begin_again(event.cluster, event.group, error, event)
            return []
        if kind in _CALLS and (hook := state.hooks.get(event.broker)) is not None:
            if hook.unwritten:
                self._unwritten.setdefault((event.cluster, event.group, event.broker), now)
            else:
                self._unwritten.pop((event.cluster, event.group, event.broker), None)
        return rows

    def tick(self, now: int) -> list[QueueProgress]:
        """Write the hooks' pending rows after `HOOK_ROW_EVERY` without a further call.

        Args:
            now: the highest tick so far; `INT64_MAX`: nothing will follow.
        """
        due = list(takewhile(lambda one: now - one[1] >= HOOK_ROW_EVERY, self._unwritten.items()))
        rows: list[QueueProgress] = []
        for (cluster, group, broker), _ in due:
            del self._unwritten[cluster, group, broker]
            state = self._state(cluster, group)
            try:
                rows += pending_hook_row(state, cluster, group, broker)
            except Exception as error:  # noqa: BLE001  as above
                self._begin_again(cluster, group, error, None)
        return rows

    def _state(self, cluster: str, group: str) -> ProgressState:
        key = f"{KEY_PREFIX}{cluster}/{group}"
        state = self._states.get(key)
        if state is None:
            blob = self._store.get(key)
            try:
                state = self._states[key] = decode_progress(blob) if blob is not None else ProgressState()
            except UnreadableStateError as error:
                state = self._begin_again(cluster, group, error, blob)
        return state

    def _begin_again(
        self, cluster: str, group: str, error: Exception, value: bytes | GroupEvent | None
    ) -> ProgressState:
        self._on_lost(f"{cluster}/{group}", error, value)
        state = self._states[f"{KEY_PREFIX}{cluster}/{group}"] = ProgressState()
        return state

    def forget(self, cluster: str, group: str) -> None:
        """Delete the state of a group that is forgotten."""
        key = f"{KEY_PREFIX}{cluster}/{group}"
        for name in [name for name in self._unwritten if name[:2] == (cluster, group)]:
            del self._unwritten[name]
        self._states.pop(key, None)
        self._store.remove(key)

    def forget_source(self, key: str, source: str, brokers: Collection[str]) -> None:
        """Forget a source of a group, cluster/group, with brokers that only it has reported."""
        cluster, _, group = key.partition("/")
        state, instance = self._state(cluster, group), source.partition("/")[2]
        state.sequences.pop(instance, None)
        for broker in brokers:
            state.hooks.pop(broker, None)
            state.committed.pop(broker, None)
            state.first_offsets.pop(broker, None)

    def flush(self) -> None:
        """Write the changed states to the store."""
        for key, state in self._states.items():
            try:
                blob = encode_progress(state)
            except Exception as error:  # noqa: BLE001  as above
                self._on_lost(key.removeprefix(KEY_PREFIX), error, None)
                blob = encode_progress(ProgressState())
            self._store.put(key, blob)
        self._states.clear()


def observe(state: ProgressState, event: GroupEvent, policy: Policy) -> list[QueueProgress]:
    """Process one event of the group.

    Args:
        state: the group's progress state; changed in place.
        event: an event of the group that carries quantities, in log order.
        policy: its poll interval applies until two answers of a kind have shown theirs.

    Returns:
        The resulting rows: one for each broker in the event, none for an error.
    """
    instance, start = instance_of(event.source_id)
    sequence = state.sequences.get(instance)
    if sequence is not None and start == sequence.start and event.seq > sequence.seq:
        sequence.seq = event.seq  # the usual case
    elif sequence is not None and sequence.covers(start, event.seq):
        return []
    else:
        note_sequence(state.sequences, instance, Sequence(start, event.seq))
        if sequence is not None and state.popped is not None and isinstance(event, PoppedEvent):
            popped_queues.forget(state.popped, event.broker, event.time)  # the broker has restarted
    if (of_answer := _ANSWERS.get(type(event))) is not None:
        return of_answer(state, cast("Never", event), policy)
    hook, of_call = state.hooks.get(event.broker), _CALLS.get(type(event))
    if of_call is None:
        return []
    if hook is not None and event.time - hook.seen_at >= HOOK_ROW_EVERY:  # pending since before a silence
        rows = pending_hook_row(state, event.cluster, event.group, event.broker)
        return rows + of_call(state, cast("Never", event))
    return of_call(state, cast("Never", event))
