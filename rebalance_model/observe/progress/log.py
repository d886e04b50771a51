"""Write the progress rows of all groups of a shard, and keep the states that they are made from."""

from collections.abc import Callable, Collection
from itertools import takewhile
from typing import TypeAlias

from rebalance_model.observe.effects import QueueProgress
from rebalance_model.observe.events import (
    AckMessage,
    Answer,
    ChangeMessageInvisibletime,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeTimeSpan,
    GroupEvent,
    LockBatchMq,
    PopMessage,
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
from rebalance_model.observe.state import Sequence, UnreadableStateError, note_sequence

Unwritten: TypeAlias = dict[tuple[str, str, str], int]
"""By cluster, group and broker of a hook that has events since its last row: the highest tick at the first of them."""
OnLost: TypeAlias = Callable[[str, Exception, bytes | GroupEvent | None], None]
"""Called with a group's key, the error, and the blob or the event that led to it."""
_KINDS = frozenset(
    {
        PullMessage,
        UpdateConsumerOffset,
        ConsumeStats,
        ConsumerRunningInfo,
        ConsumeTimeSpan,
        LockBatchMq,
        TopicStats,
        PopMessage,
        AckMessage,
        ChangeMessageInvisibletime,
    }
)
"""The kinds of events that carry quantities."""


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
        if type(event) not in _KINDS:
            return []
        state = self._state(event.cluster, event.group)
        try:
            rows = observe(state, event, self._policy)
        except Exception as error:  # noqa: BLE001  it is raised where failures are not contained
            self._begin_again(event.cluster, event.group, error, event)
            return []
        if not isinstance(event, Answer) and (hook := state.hooks.get(event.broker)) is not None:
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
    if sequence is not None and sequence.covers(start, event.seq):
        return []
    note_sequence(state.sequences, instance, Sequence(start, event.seq))
    if isinstance(event, Answer):
        return _of_answer(state, event, policy)
    hook = state.hooks.get(event.broker)
    rows: list[QueueProgress] = []
    if hook is not None and event.time - hook.seen_at >= HOOK_ROW_EVERY:
        rows = pending_hook_row(state, event.cluster, event.group, event.broker)  # pending since before a silence
    return rows + _of_call(state, event, was_restarted=sequence is not None and start != sequence.start)


def _of_answer(state: ProgressState, event: Answer, policy: Policy) -> list[QueueProgress]:
    match event:
        case ConsumerRunningInfo():  # the most frequent one
            return on_running_info(state, event, policy)
        case ConsumeStats():
            return on_stats(state, event, policy)
        case ConsumeTimeSpan():
            return on_time_span(state, event, policy)
        case TopicStats():
            return on_topic_stats(state, event, policy)
        case _:
            return []


def _of_call(state: ProgressState, event: GroupEvent, *, was_restarted: bool) -> list[QueueProgress]:
    match event:
        case PullMessage():
            return on_pull(state, event)
        case UpdateConsumerOffset():
            return on_commit(state, event)
        case LockBatchMq():
            return on_locks(state, event)
        case PopMessage() | AckMessage() | ChangeMessageInvisibletime():
            return on_popped(state, event, was_restarted=was_restarted)
        case _:
            return []
