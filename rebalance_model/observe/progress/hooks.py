"""Quantities from a broker's hook: its calls make one row every `HOOK_ROW_EVERY`, and at once when locks are granted.

A client renews its locks every 20 s, and they expire for it after 30 s: a lock's age that lacks the renewal of the last
10 s would look like a lock that is about to expire.
"""

import msgspec

from rebalance_model.broker.broker_config import SUCCESS
from rebalance_model.observe.effects import QueueProgress
from rebalance_model.observe.events import GroupEvent, LockBatchMq, PopMessage, PullMessage, UpdateConsumerOffset
from rebalance_model.observe.events.hook_events import PoppedEvent
from rebalance_model.observe.progress.state import (
    REPEATED_AFTER,
    HookProgress,
    HookQueueProgress,
    ProgressState,
    behind_by,
    by_hook,
    on_call,
)
from rebalance_model.observe.state import popped
from rebalance_model.observe.state.popped_queues import PoppedQueues

HOOK_ROW_EVERY = 10_000
"""The interval of rows from a hook's calls, for each broker and group, and the delay of a row after the last call;
milliseconds."""
LOCK_ROW_EVERY = 100
"""The minimum interval of rows for locks of single queues: a rebalance makes a call for each queue; milliseconds."""
REPEATED_WITHIN = 1_000
"""A lock that is granted again so soon makes no row at once: a client that renews all its locks may call twice;
milliseconds."""
FORGOTTEN_AFTER = 900_000
"""A queue without a call for this long is left out of the hook's rows; milliseconds."""


def on_commit(state: ProgressState, event: UpdateConsumerOffset) -> list[QueueProgress]:
    """Process a commit (UPDATE_CONSUMER_OFFSET) that the broker accepted; return the row, if one is due."""
    if event.code != SUCCESS or event.offset < 0:
        return []
    queue = _hook_queue(state, event, event.topic, event.queue_id)
    _note_commit(state, event, queue, event.topic, event.queue_id, event.offset)
    _note_newest(queue, event.broker_offset, event.time)
    return _hook_row(state, event)


def on_pull(state: ProgressState, event: PullMessage) -> list[QueueProgress]:
    """Process a second's pulls (PULL_MESSAGE), with the commit of the last one; return the row, if one is due."""
    queue = _hook_queue(state, event, event.topic, event.queue_id)
    queue.pull_offset, queue.pull_at = event.last_offset, max(queue.pull_at, event.last_time)
    if (committed := event.committed) >= 0 and event.last_time >= queue.commit_at:
        _note_commit(state, event, queue, event.topic, event.queue_id, committed)
    _note_newest(queue, event.broker_offset, event.time)
    return _hook_row(state, event)


def on_popped(state: ProgressState, event: PoppedEvent) -> list[QueueProgress]:
    """Process a call of a consumer that pops; return the row, if one is due."""
    pops = on_call(state, event)
    if isinstance(event, PopMessage) or event.code not in popped.DONE:
        return []
    if by_hook(pops, event.broker, event.topic, event.queue_id, event.time) is None:
        return []  # there are too many queues
    _hook_queue(state, event, event.topic, event.queue_id)
    return _hook_row(state, event)


def on_locks(state: ProgressState, event: LockBatchMq) -> list[QueueProgress]:
    """Process locks that the broker granted (LOCK_BATCH_MQ); return the row, if one is due."""
    granted = [mq for mq in event.granted if mq.broker == event.broker] if event.code == 0 else []
    every = HOOK_ROW_EVERY
    for mq in granted:
        queue = _hook_queue(state, event, mq.topic, mq.queue_id)
        if event.time - queue.lock_at > REPEATED_WITHIN:
            every = LOCK_ROW_EVERY if len(granted) == 1 else 0
        queue.lock_at = event.time
    return _hook_row(state, event, every) if granted else []


def pending_hook_row(state: ProgressState, cluster: str, group: str, broker: str) -> list[QueueProgress]:
    """Return the row of what a hook has seen since the broker's last row; it is due, and no call has followed."""
    hook = state.hooks.get(broker)
    if hook is None or not hook.unwritten:
        return []
    # A sum of pulls is stamped with the end of its second, as other sums are: the last row may have the same time.
    return _row_of_hook(state, hook, cluster, group, broker, max(hook.seen_at, hook.written_at + 1))


def _hook_queue(state: ProgressState, event: GroupEvent, topic: str, queue_id: int) -> HookQueueProgress:
    """Return the hook's values of the queue, marked as seen now."""
    hook, place, time = state.hooks.get(event.broker), (topic, queue_id), event.time
    if hook is None:
        hook = state.hooks[event.broker] = HookProgress()
    queue = hook.queues.get(place)
    if queue is None:
        queue = hook.queues[place] = HookQueueProgress()
    queue.seen_at, hook.seen_at = max(queue.seen_at, time), max(hook.seen_at, time)
    hook.unwritten[place] = None
    return queue


def _note_commit(
    state: ProgressState, event: GroupEvent, queue: HookQueueProgress, topic: str, queue_id: int, offset: int
) -> None:
    if offset != queue.commit_offset:
        queue.commit_offset, queue.commit_at = offset, event.time
        state.committed.setdefault(event.broker, {}).setdefault(topic, set()).add(queue_id)


def _note_newest(queue: HookQueueProgress, broker_offset: int, time: int) -> None:
    if broker_offset >= 0:
        queue.broker_offset, queue.broker_offset_at = broker_offset, time


def _hook_row(state: ProgressState, event: GroupEvent, every: int = HOOK_ROW_EVERY) -> list[QueueProgress]:
    """Return the changes since the broker's last row, or all values, if a row is due."""
    hook = state.hooks[event.broker]
    if event.time - hook.written_at < every:
        return []
    return _row_of_hook(state, hook, event.cluster, event.group, event.broker, event.time)


def _row_of_hook(
    state: ProgressState, hook: HookProgress, cluster: str, group: str, broker: str, now: int
) -> list[QueueProgress]:
    repeats = now - hook.repeated_at >= REPEATED_AFTER
    if repeats:
        hook.queues = {place: queue for place, queue in hook.queues.items() if now - queue.seen_at < FORGOTTEN_AFTER}
    reported = [(place, queue) for place, queue in hook.queues.items() if repeats or place in hook.unwritten]
    hook.unwritten.clear()
    since, hook.written_at = hook.written_at, now
    if repeats:
        hook.repeated_at = now
    columns = zip(*[_values(place, queue, since) for place, queue in reported], strict=True)
    row = QueueProgress(
        cluster=cluster,
        group=group,
        broker=broker,
        time=now,
        asked_at=None,
        interval_ms=REPEATED_AFTER,
        source="HOOK",
        kind="HOOK",
        **(dict(zip(_COLUMNS, columns, strict=True)) if reported else dict.fromkeys(_COLUMNS, ())),
    )
    return [_with_popped(state.popped, row) if state.popped is not None else row]


def _with_popped(pops: PoppedQueues, row: QueueProgress) -> QueueProgress:
    """Return the row with what is in flight of its popped queues, if it has any."""
    places = zip(row.topic, row.queue_id, strict=True)
    quantities = [by_hook(pops, row.broker, topic, queue_id, row.time) for topic, queue_id in places]
    if not any(quantities):
        return row
    return msgspec.structs.replace(
        row,
        lag=tuple(one.lag if one else lag for one, lag in zip(quantities, row.lag, strict=True)),
        lag_is_at_least=tuple(
            one is not None or known for one, known in zip(quantities, row.lag_is_at_least, strict=True)
        ),
        in_flight=tuple(one.in_flight if one else None for one in quantities),
        in_flight_since=tuple(one.in_flight_since if one else None for one in quantities),
    )


_COLUMNS = (
    "topic",
    "queue_id",
    "broker_offset",
    "commit_offset",
    "pull_offset",
    "lag",
    "lag_is_at_least",
    "commit_at",
    "lock_at",
    "pull_at",
)


def _values(place: tuple[str, int], queue: HookQueueProgress, since: int) -> tuple[str | int | bool | None, ...]:
    """Return what a row has of a queue, in the order of `_COLUMNS`."""
    newest, commit, pull = queue.broker_offset, queue.commit_offset, queue.pull_offset
    lag, at_least = _hook_lag(queue, since)
    return (
        *place,
        newest if newest >= max(commit, pull, 0) else None,  # else it is older than these
        commit if commit >= 0 else None,
        pull if pull >= 0 else None,
        lag,
        at_least,
        queue.commit_at or None,
        queue.lock_at or None,
        queue.pull_at or None,
    )


def _hook_lag(queue: HookQueueProgress, since: int) -> tuple[int | None, bool]:
    """Return the lag that a hook saw, and whether it is a lower bound: the newest offset was not seen since then."""
    commit = _offset_or_none(queue.commit_offset)
    if queue.broker_offset >= 0 and queue.broker_offset_at > since:
        return behind_by(queue.broker_offset, commit), False
    at_least = _offset_or_none(max(queue.broker_offset, queue.pull_offset))
    return behind_by(max(at_least, commit or 0), commit) if at_least is not None else None, True


def _offset_or_none(offset: int) -> int | None:
    return offset if offset >= 0 else None
