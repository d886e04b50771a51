"""Quantities as a series: what one answer, or a broker's hook, says of the queues of one group at one broker.

A quantity (lag, waiting time, cached messages, the stamps of lock, pull and consumption) has the time of its
observation. So each answer becomes one row of arrays when it arrives: no ordering holds it back, and no judgement is
involved. Readers take, for an instant, the last observation not after it. The rows depend on the order of the log, not
on where it is cut into batches, and are left out when two logs of different delays are compared.

The state is small and kept apart from the group's: it knows what was said last, so that a client's answer and a hook
add only queues of which they say something new (`REPEATED_AFTER` at the latest), and it tells a commit of 0 from none.

Bounds, where a number is not known exactly:
- A hook knows the newest offset only where its broker answers a send within the call. Elsewhere the lag is at least
  what was pulled and is not yet committed.
- CONSUME_STATS tells when the last consumed message was stored: the next one waits for that long at most.
- A client's stamp is at the latest the answer's time less its distance to the newest stamp of the same answer; a stamp
  that an earlier answer carried keeps the earlier bound.
"""

from collections.abc import Iterable
from itertools import takewhile
from typing import Literal, TypeAlias, TypedDict, TypeVar

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import QueueProgress
from rebalance_model.observe.events import (
    Answer,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeTimeSpan,
    GroupEvent,
    LockBatchMq,
    OffsetInfo,
    ProcessQueueInfo,
    PullMessage,
    UpdateConsumerOffset,
    instance_of,
)
from rebalance_model.observe.group_store import GroupStore
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import Sequence

_KINDS = frozenset({PullMessage, UpdateConsumerOffset, ConsumeStats, ConsumerRunningInfo, ConsumeTimeSpan, LockBatchMq})
"""The events that say quantities."""
HOOK_ROW_EVERY = 10_000
"""A hook's calls make one row a broker and group in so many milliseconds; so long after the last ones, their row."""
REPEATED_AFTER = 60_000
"""What is said only when it changes is said again after so many milliseconds: the interval of such a row."""
FORGOTTEN_AFTER = 900_000
"""A hook's queue of which nothing came for so many milliseconds is said no more."""


class Spacing(msgspec.Struct, array_like=True):
    """When the last answer of one kind came, and how long after the one before it; 0: not known."""

    answered: int
    interval_ms: int = 0


class ClientQueue(msgspec.Struct, array_like=True):
    """What a client last said of one queue; ``*_at`` are the latest times that its stamps can mean."""

    cached_count: int
    commit_offset: int
    lock_at_client: int
    pull_at_client: int
    consume_at_client: int
    lock_at: int
    pull_at: int
    consume_at: int

    def says(self) -> tuple[int, ...]:
        """What the client itself said: when that changes, there is something new."""
        return (
            self.cached_count,
            self.commit_offset,
            self.lock_at_client,
            self.pull_at_client,
            self.consume_at_client,
        )


class ClientProgress(msgspec.Struct, array_like=True):
    """What a client last said of its queues, and when all of it was last written."""

    repeated_at: int = 0
    queues: dict[tuple[str, str, int], ClientQueue] = {}
    """By broker, topic and queue id."""


class HookQueueProgress(msgspec.Struct, array_like=True):
    """What a hook saw of one queue; -1 and 0: nothing yet."""

    seen_at: int = 0
    commit_offset: int = -1
    commit_at: int = 0
    """When the commit last changed."""
    pull_offset: int = -1
    pull_at: int = 0
    lock_at: int = 0
    """When the broker last granted its lock."""
    broker_offset: int = -1
    broker_offset_at: int = 0


class HookProgress(msgspec.Struct, array_like=True):
    """What a broker's hook saw of its queues, and when it was last written."""

    written_at: int = 0
    repeated_at: int = 0
    queues: dict[tuple[str, int], HookQueueProgress] = {}
    """By topic and queue id."""
    seen_at: int = 0
    """When it last saw any of them."""


class ProgressState(msgspec.Struct):
    """What is kept of one group between answers."""

    version: int = 1
    sequences: dict[str, Sequence] = {}
    """How far each source was read, by its instance: a second copy of an event makes no second row."""
    spacings: dict[str, Spacing] = {}
    """By source instance, kind, broker and client or topic."""
    committed: dict[str, dict[str, set[int]]] = {}
    """Queues that have ever had a commit, by broker and topic: of these an offset 0 is a commit."""
    clients: dict[str, ClientProgress] = {}
    hooks: dict[str, HookProgress] = {}
    """By broker."""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(ProgressState)
KEY = "progress {}"
"""The key of a group's progress in the store of the groups, whose own keys hold no space."""


Unwritten: TypeAlias = dict[tuple[str, str, str], int]
"""The cluster, group and broker of which a hook has told since its last row, and the highest tick when it first did."""


class ProgressLog:
    """Writes the rows of all groups of a shard, and keeps their states in the store of the groups."""

    def __init__(self, store: GroupStore, policy: Policy, unwritten: Unwritten) -> None:
        """Go on.

        Args:
            store: where the states are kept.
            policy: for the poll intervals.
            unwritten: what the shard keeps of hooks' rows that are to come; changed in place.
        """
        self._store = store
        self._policy = policy
        self._unwritten = unwritten
        self._states: dict[str, ProgressState] = {}

    def observe(self, event: GroupEvent, now: int) -> list[QueueProgress]:
        """Take an event when it arrives.

        Args:
            event: any event of a group.
            now: the highest tick so far.

        Returns:
            The rows that it leads to.
        """
        if type(event) not in _KINDS:
            return []
        rows = observe(self._state(event.cluster, event.group), event, self._policy)
        if not isinstance(event, Answer):
            if rows:
                self._unwritten.pop((event.cluster, event.group, event.broker), None)
            else:
                self._unwritten.setdefault((event.cluster, event.group, event.broker), now)
        return rows

    def tick(self, now: int) -> list[QueueProgress]:
        """Write what hooks have told last, where nothing has followed for `HOOK_ROW_EVERY`.

        Args:
            now: the highest tick so far; `INT64_MAX`: nothing will follow.
        """
        due = list(takewhile(lambda one: now - one[1] >= HOOK_ROW_EVERY, self._unwritten.items()))
        rows: list[QueueProgress] = []
        for (cluster, group, broker), _ in due:
            del self._unwritten[cluster, group, broker]
            rows += rest_of_hook(self._state(cluster, group), cluster, group, broker)
        return rows

    def _state(self, cluster: str, group: str) -> ProgressState:
        key = KEY.format(f"{cluster}/{group}")
        state = self._states.get(key)
        if state is None:
            blob = self._store.get(key)
            state = self._states[key] = _DECODER.decode(blob) if blob is not None else ProgressState()
        return state

    def forget(self, cluster: str, group: str) -> None:
        """Drop what is kept of a group that is forgotten."""
        key = KEY.format(f"{cluster}/{group}")
        for name in [name for name in self._unwritten if name[:2] == (cluster, group)]:
            del self._unwritten[name]
        self._states.pop(key, None)
        self._store.remove(key)

    def flush(self) -> None:
        """Write the touched states to the store."""
        for key, state in self._states.items():
            self._store.put(key, _ENCODER.encode(state))
        self._states.clear()


def observe(state: ProgressState, event: GroupEvent, policy: Policy) -> list[QueueProgress]:
    """Take one event of the group.

    Args:
        state: what is kept of the group; changed in place.
        event: an event of the group that says quantities, in the order of the log.
        policy: its poll interval counts until two answers of a kind have shown theirs.

    Returns:
        The rows that it leads to: one for each broker that the event speaks of, none for an error.
    """
    instance, start = instance_of(event.source_id)
    known = state.sequences.get(instance)
    if known is not None and known.covers(start, event.seq):
        return []
    state.sequences[instance] = Sequence(start, event.seq)
    hook = state.hooks.get(event.broker) if not isinstance(event, Answer) else None
    rows: list[QueueProgress] = []
    if hook is not None and event.time - hook.seen_at >= HOOK_ROW_EVERY:
        rows = rest_of_hook(state, event.cluster, event.group, event.broker)  # what it told last before a silence
    match event:
        case PullMessage():
            rows += _on_pull(state, event)
        case UpdateConsumerOffset():
            rows += _on_commit(state, event)
        case LockBatchMq():
            rows += _on_locks(state, event)
        case ConsumeStats():
            rows = _on_stats(state, event, policy)
        case ConsumerRunningInfo():
            rows = _on_running_info(state, event, policy)
        case ConsumeTimeSpan():
            rows = _on_time_span(state, event, policy)
    return rows


def _on_stats(state: ProgressState, event: ConsumeStats, policy: Policy) -> list[QueueProgress]:
    """Take a broker's offsets (GET_CONSUME_STATS)."""
    if event.queues is None:
        return []
    interval, at = _interval(state, event, "", policy), _answered(event)
    rows: list[QueueProgress] = []
    for broker, queues in _by_broker((info.mq, info) for info in event.queues).items():
        commits = [_commit(state, info) for info in queues]
        lags = [_behind(info.broker_offset, commit) for info, commit in zip(queues, commits, strict=True)]
        pulls = [info.pull_offset if info.pull_offset >= 0 else None for info in queues]
        rows.append(
            QueueProgress(
                **_common(event, broker, at, interval),
                topic=tuple(info.mq.topic for info in queues),
                queue_id=tuple(info.mq.queue_id for info in queues),
                broker_offset=tuple(info.broker_offset for info in queues),
                commit_offset=tuple(commits),
                pull_offset=tuple(pulls),
                lag=tuple(lags),
                in_flight=tuple(_behind(pull, commit) for pull, commit in zip(pulls, commits, strict=True)),
                ready=tuple(
                    _behind(info.broker_offset, pull) if commit is not None or pull else None
                    for info, pull, commit in zip(queues, pulls, commits, strict=True)
                ),
                waiting_ms=tuple(_waiting_at_most(info, lag, at) for info, lag in zip(queues, lags, strict=True)),
                waiting_is_at_most=tuple(bool(lag) for lag in lags),
            )
        )
    return rows


def _on_time_span(state: ProgressState, event: ConsumeTimeSpan, policy: Policy) -> list[QueueProgress]:
    """Take how long the next messages have waited (QUERY_CONSUME_TIME_SPAN)."""
    if event.queues is None:
        return []
    interval, at = _interval(state, event, event.topic, policy), _answered(event)
    return [
        QueueProgress(
            **_common(event, broker, at, interval),
            topic=tuple(info.mq.topic for info in queues),
            queue_id=tuple(info.mq.queue_id for info in queues),
            waiting_ms=tuple(max(0, info.delay_time) for info in queues),
        )
        for broker, queues in _by_broker((info.mq, info) for info in event.queues).items()
    ]


def _on_running_info(state: ProgressState, event: ConsumerRunningInfo, policy: Policy) -> list[QueueProgress]:
    """Take a client's own state (GET_CONSUMER_RUNNING_INFO): queues of which it says something new, or all."""
    if event.queues is None:
        return []
    interval, at = _interval(state, event, event.client_id, policy), _answered(event)
    client = state.clients.setdefault(event.client_id, ClientProgress())
    known, client.queues = client.queues, {}
    repeats = at - client.repeated_at >= REPEATED_AFTER
    newest = max((max(info.lock_time, info.pull_time, info.consume_time) for info in event.queues), default=0)
    said: list[tuple[MessageQueue, ClientQueue]] = []
    for info in event.queues:
        if info.dropped:
            continue
        place = (info.mq.broker, info.mq.topic, info.mq.queue_id)
        before = known.get(place)
        queue = client.queues[place] = _client_queue(info, before, at - newest, ordered=event.orderly)
        if repeats or before is None or queue.says() != before.says():
            said.append((info.mq, queue))
    if repeats:
        client.repeated_at = at
    return [
        QueueProgress(
            **_common(event, broker, at, max(interval, REPEATED_AFTER)),
            client_id=event.client_id,
            topic=tuple(mq.topic for mq, _ in queues),
            queue_id=tuple(mq.queue_id for mq, _ in queues),
            cached_count=tuple(queue.cached_count for _, queue in queues),
            lock_at=tuple(queue.lock_at or None for _, queue in queues),
            pull_at=tuple(queue.pull_at or None for _, queue in queues),
            consume_at=tuple(queue.consume_at or None for _, queue in queues),
        )
        for broker, queues in _by_broker((mq, (mq, queue)) for mq, queue in said).items()
    ]


def _on_commit(state: ProgressState, event: UpdateConsumerOffset) -> list[QueueProgress]:
    """Take a commit (UPDATE_CONSUMER_OFFSET) that the broker took."""
    if event.code != 0 or event.offset < 0:
        return []
    queue = _hook_queue(state, event, event.topic, event.queue_id)
    _note_commit(state, event, queue, event.topic, event.queue_id, event.offset)
    _note_newest(queue, event.broker_offset, event.time)
    return _hook_row(state, event)


def _on_pull(state: ProgressState, event: PullMessage) -> list[QueueProgress]:
    """Take a second's pulls (PULL_MESSAGE), with the commit that the last one carried."""
    queue = _hook_queue(state, event, event.topic, event.queue_id)
    queue.pull_offset, queue.pull_at = event.last_offset, max(queue.pull_at, event.last_time)
    if event.commit_offset >= 0 and event.last_time >= queue.commit_at:
        _note_commit(state, event, queue, event.topic, event.queue_id, event.commit_offset)
    _note_newest(queue, event.broker_offset, event.time)
    return _hook_row(state, event)


def _on_locks(state: ProgressState, event: LockBatchMq) -> list[QueueProgress]:
    """Take locks that the broker granted (LOCK_BATCH_MQ)."""
    granted = [mq for mq in event.granted if mq.broker == event.broker] if event.code == 0 else []
    for mq in granted:
        _hook_queue(state, event, mq.topic, mq.queue_id).lock_at = event.time
    return _hook_row(state, event) if granted else []


_T = TypeVar("_T")


class _Common(TypedDict):
    """What the rows of an answer have in common."""

    cluster: str
    group: str
    broker: str
    time: int
    asked: int | None
    interval_ms: int
    source: Literal["POLL"]
    kind: str


def _common(event: Answer, broker: str, time: int, interval_ms: int) -> _Common:
    return {
        "cluster": event.cluster,
        "group": event.group,
        "broker": broker,
        "time": time,
        "asked": event.asked or None,
        "interval_ms": interval_ms,
        "source": "POLL",
        "kind": str(event.__struct_config__.tag),
    }


def _answered(event: Answer) -> int:
    return event.answered or event.time


def _interval(state: ProgressState, event: Answer, of: str, policy: Policy) -> int:
    """Note the answer; returns the spacing between it and the one of its kind before it, milliseconds."""
    name = f"{instance_of(event.source_id)[0]} {event.__struct_config__.tag} {event.broker} {of}".rstrip()
    at, known = _answered(event), state.spacings.get(name)
    spacing = at - known.answered if known is not None else 0
    if spacing <= 0:
        spacing = known.interval_ms if known is not None else 0
    state.spacings[name] = Spacing(at, spacing)
    return spacing or policy.of_group(event.group).poll_interval


def _by_broker(queues: Iterable[tuple[MessageQueue, _T]]) -> dict[str, list[_T]]:
    """The queues of an answer by their brokers: a client's are of several."""
    found: dict[str, list[_T]] = {}
    for mq, queue in queues:
        found.setdefault(mq.broker, []).append(queue)
    return found


def _commit(state: ProgressState, info: OffsetInfo) -> int | None:
    """The commit that a broker answers; None where it answers 0 and none was ever seen."""
    mq, offset = info.mq, info.consumer_offset
    known = state.committed.setdefault(mq.broker, {}).setdefault(mq.topic, set())
    if offset > 0:
        known.add(mq.queue_id)
    return offset if offset >= 0 and mq.queue_id in known else None


def _behind(ahead: int | None, behind: int | None) -> int | None:
    """How many messages lie between two offsets; None where one of them is not known."""
    return max(0, ahead - behind) if ahead is not None and behind is not None else None


def _waiting_at_most(info: OffsetInfo, lag: int | None, at: int) -> int | None:
    """How long the next message has waited, at most: it is younger than the last one that was consumed."""
    if lag is None:
        return None
    if lag == 0:
        return 0
    return max(0, at - info.last_time) if info.last_time > 0 else None


def _client_queue(
    info: ProcessQueueInfo, before: ClientQueue | None, client_behind_ms: int, *, ordered: bool | None
) -> ClientQueue:
    """What a client says of a queue, its stamps brought to the collector's time.

    Args:
        info: what it says.
        before: what it said before.
        client_behind_ms: what its stamps are at most behind the collector's time.
        ordered: whether it locks its queues.
    """
    at = {
        "lock_at": info.lock_time + client_behind_ms if ordered and info.locked else 0,
        "pull_at": info.pull_time + client_behind_ms if info.pull_time else 0,
        "consume_at": info.consume_time + client_behind_ms if info.consume_time else 0,
    }
    if before is not None:
        if at["lock_at"] and before.lock_at and info.lock_time == before.lock_at_client:
            at["lock_at"] = min(at["lock_at"], before.lock_at)
        if before.pull_at and info.pull_time == before.pull_at_client:
            at["pull_at"] = min(at["pull_at"], before.pull_at)
        if before.consume_at and info.consume_time == before.consume_at_client:
            at["consume_at"] = min(at["consume_at"], before.consume_at)
    return ClientQueue(info.cached_count, info.commit_offset, info.lock_time, info.pull_time, info.consume_time, **at)


def _hook_queue(state: ProgressState, event: GroupEvent, topic: str, queue_id: int) -> HookQueueProgress:
    """What the broker's hook saw of the queue, which is now seen."""
    hook = state.hooks.setdefault(event.broker, HookProgress())
    queue = hook.queues.get((topic, queue_id))
    if queue is None:
        queue = hook.queues[topic, queue_id] = HookQueueProgress()
    queue.seen_at = max(queue.seen_at, event.time)
    hook.seen_at = max(hook.seen_at, event.time)
    return queue


def _note_commit(  # noqa: PLR0913, PLR0917  a queue has three names
    state: ProgressState, event: GroupEvent, queue: HookQueueProgress, topic: str, queue_id: int, offset: int
) -> None:
    if offset != queue.commit_offset:
        queue.commit_offset, queue.commit_at = offset, event.time
        state.committed.setdefault(event.broker, {}).setdefault(topic, set()).add(queue_id)


def _note_newest(queue: HookQueueProgress, broker_offset: int, time: int) -> None:
    if broker_offset >= 0:
        queue.broker_offset, queue.broker_offset_at = broker_offset, time


def _hook_row(state: ProgressState, event: GroupEvent) -> list[QueueProgress]:
    """What changed since the broker's last row, or all of it, if a row is due."""
    hook = state.hooks[event.broker]
    if event.time - hook.written_at < HOOK_ROW_EVERY:
        return []
    return _row_of_hook(hook, event.cluster, event.group, event.broker, event.time)


def rest_of_hook(state: ProgressState, cluster: str, group: str, broker: str) -> list[QueueProgress]:
    """What a hook has told since the broker's last row; nothing has followed, and a row is due."""
    hook = state.hooks.get(broker)
    if hook is None or hook.seen_at <= hook.written_at:
        return []
    return _row_of_hook(hook, cluster, group, broker, hook.seen_at)


def _row_of_hook(hook: HookProgress, cluster: str, group: str, broker: str, now: int) -> list[QueueProgress]:
    repeats = now - hook.repeated_at >= REPEATED_AFTER
    if repeats:
        hook.queues = {place: queue for place, queue in hook.queues.items() if now - queue.seen_at < FORGOTTEN_AFTER}
    said = [(place, queue) for place, queue in hook.queues.items() if repeats or queue.seen_at > hook.written_at]
    since, hook.written_at = hook.written_at, now
    if repeats:
        hook.repeated_at = now
    lags = [_hook_lag(queue, since) for _, queue in said]
    return [
        QueueProgress(
            cluster=cluster,
            group=group,
            broker=broker,
            time=now,
            asked=None,
            interval_ms=REPEATED_AFTER,
            source="HOOK",
            kind="HOOK",
            topic=tuple(topic for (topic, _), _ in said),
            queue_id=tuple(queue_id for (_, queue_id), _ in said),
            broker_offset=tuple(_known(queue.broker_offset) for _, queue in said),
            commit_offset=tuple(_known(queue.commit_offset) for _, queue in said),
            pull_offset=tuple(_known(queue.pull_offset) for _, queue in said),
            lag=tuple(lag for lag, _ in lags),
            lag_is_at_least=tuple(at_least for _, at_least in lags),
            commit_at=tuple(queue.commit_at or None for _, queue in said),
            lock_at=tuple(queue.lock_at or None for _, queue in said),
            pull_at=tuple(queue.pull_at or None for _, queue in said),
        )
    ]


def _hook_lag(queue: HookQueueProgress, since: int) -> tuple[int | None, bool]:
    """The lag that a hook saw, and whether it is at least so much: it has not seen the newest offset since then."""
    commit = _known(queue.commit_offset)
    if queue.broker_offset >= 0 and queue.broker_offset_at > since:
        return _behind(queue.broker_offset, commit), False
    return _behind(_known(max(queue.broker_offset, queue.pull_offset)), commit), True


def _known(offset: int) -> int | None:
    return offset if offset >= 0 else None
