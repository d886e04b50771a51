"""Quantities in answers: each answer becomes one row for every broker that has queues in it."""

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TypeVar

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.effects import QueueProgress
from rebalance_model.observe.events import (
    Answer,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeTimeSpan,
    OffsetInfo,
    PopProcessQueueInfo,
    ProcessQueueInfo,
    TimeSpanInfo,
    TopicOffset,
    TopicStats,
    instance_of,
    newest_stamp,
)
from rebalance_model.observe.events.decoding import FUTURE_MS_MAX
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.progress.state import (
    REPEATED_AFTER,
    ClientProgress,
    ClientQueue,
    ProgressState,
    Spacing,
    at_answer,
    behind_by,
    may_be_popped,
)

ANSWERS_FORGOTTEN_AFTER = 3_600_000
"""A client or broker that has not answered for so long is forgotten; milliseconds. Clients have a new id after each
restart."""
INTERVAL_MAX = 1_200_000
"""The highest interval that a row names, milliseconds: readers look back for three of them, at most 65 minutes."""
_T = TypeVar("_T", OffsetInfo, TimeSpanInfo)


def on_stats(state: ProgressState, event: ConsumeStats, policy: Policy) -> list[QueueProgress]:
    """Process a broker's offsets (GET_CONSUME_STATS); return the rows."""
    if event.queues is None:
        return []
    interval, at = _interval(state, event, "", policy)
    rows: list[QueueProgress] = []
    for broker, queues in _by_broker(event.queues).items():
        row = msgspec.structs.replace(_empty(event, broker, at, interval), **_offsets(state, broker, queues, at))
        rows.append(_with_popped(state, row, queues) if may_be_popped(state) else row)
    return rows


_OF_OFFSETS = (
    "topic", "queue_id", "broker_offset", "commit_offset", "pull_offset",
    "lag", "in_flight", "ready", "waiting_ms", "waiting_is_at_most",
)  # fmt: skip


def _offsets(state: ProgressState, broker: str, queues: Iterable[OffsetInfo], at: int) -> dict[str, tuple[object, ...]]:
    """Return the columns of a broker's offsets, and of what follows from them, in one pass over the queues.

    A commit is None where the broker answers 0 and nothing shows that this was committed: a commit before, or a message
    0 that waits at a client.
    """
    of_broker, of_topic, topic, rows = state.committed.setdefault(broker, {}), set[int](), "", []
    for info in queues:
        mq, newest, pull, offset = info.mq, info.broker_offset, info.pull_offset, info.consumer_offset
        if mq.topic != topic:
            topic = mq.topic
            of_topic = of_broker.setdefault(topic, set())
        if offset > 0:
            of_topic.add(mq.queue_id)
        is_known = offset > 0 or (offset == 0 and (mq.queue_id in of_topic or _first_offset(state, mq) == 0))
        commit = offset if is_known else None
        lag = newest - commit if commit is not None and newest >= commit else _lag(state, info, commit)
        in_flight = (pull - commit if pull > commit else 0) if pull >= 0 and commit is not None else None
        ready = newest - pull if 0 <= pull <= newest and (pull or commit is not None) else None
        waits = lag and (max(0, at - info.last_time) if info.last_time > 0 else None)  # 0 and None stay
        shown = pull if pull >= 0 else None
        rows.append((topic, mq.queue_id, newest, commit, shown, lag, in_flight, ready, waits, bool(lag)))
    return dict(zip(_OF_OFFSETS, zip(*rows, strict=True), strict=True))


def _with_popped(state: ProgressState, row: QueueProgress, queues: list[OffsetInfo]) -> QueueProgress:
    """Return the row with what is known of its popped queues, if it has any."""
    popped = [at_answer(state, row.group, info, row.time) for info in queues]
    if not any(popped):
        return row
    return msgspec.structs.replace(
        row,
        lag=tuple(one.lag if one else lag for one, lag in zip(popped, row.lag, strict=True)),
        lag_is_at_least=tuple(one is not None and one.lag_is_at_least for one in popped),
        in_flight=tuple(one.in_flight if one else count for one, count in zip(popped, row.in_flight, strict=True)),
        in_flight_since=tuple(one.in_flight_since if one else None for one in popped),
        ready=tuple(one.ready if one else count for one, count in zip(popped, row.ready, strict=True)),
        waiting_ms=tuple(
            (wait if one.next else one.next) if one else wait for one, wait in zip(popped, row.waiting_ms, strict=True)
        ),
        waiting_is_at_most=tuple(
            bool(one.next) if one else known for one, known in zip(popped, row.waiting_is_at_most, strict=True)
        ),
    )


def on_time_span(state: ProgressState, event: ConsumeTimeSpan, policy: Policy) -> list[QueueProgress]:
    """Process the waiting times of the next messages (QUERY_CONSUME_TIME_SPAN); return the rows."""
    if event.queues is None:
        return []
    interval, at = _interval(state, event, event.topic, policy)
    return [
        msgspec.structs.replace(
            _empty(event, broker, at, interval),
            topic=tuple(info.mq.topic for info in queues),
            queue_id=tuple(info.mq.queue_id for info in queues),
            waiting_ms=tuple(max(0, info.delay_time) for info in queues),
        )
        for broker, queues in _by_broker(event.queues).items()
    ]


def on_topic_stats(state: ProgressState, event: TopicStats, policy: Policy) -> list[QueueProgress]:
    """Process the offsets of the group's dead-letter topic (GET_TOPIC_STATS_INFO); return the row. Others have none.

    A topic that does not exist has no dead letters: its queue is reported with the offset 0. It is requested about
    once a minute, the first two times in a shorter interval.
    """
    if event.queues is None or not event.is_dead_letters:
        return []
    interval, at = _interval(state, event, event.topic, policy)
    queues = event.queues or (TopicOffset(mq=MessageQueue(event.topic, event.broker, 0), min_offset=0, max_offset=0),)
    return [
        msgspec.structs.replace(
            _empty(event, event.broker, at, max(interval, REPEATED_AFTER)),
            topic=tuple(info.mq.topic for info in queues),
            queue_id=tuple(info.mq.queue_id for info in queues),
            broker_offset=tuple(info.max_offset for info in queues),
            min_offset=tuple(info.min_offset for info in queues),
            stored_at=tuple(info.last_time or None for info in queues),
        )
    ]


def on_running_info(state: ProgressState, event: ConsumerRunningInfo, policy: Policy) -> list[QueueProgress]:
    """Process a client's own state (GET_CONSUMER_RUNNING_INFO); return rows of the changed queues, or of all if due."""
    if event.queues is None:
        return []
    interval, at = _interval(state, event, event.client_id, policy)
    if event.client_id not in state.clients:
        _forget(state, at - ANSWERS_FORGOTTEN_AFTER)
    client = state.clients.setdefault(event.client_id, ClientProgress())
    former_queues, client.queues = client.queues, {}
    repeats, committed = at - client.repeated_at >= REPEATED_AFTER, state.committed
    behind_ms = at - newest_stamp(event.queues, event.pop_queues)
    changed: dict[str, list[tuple[str, int, int | None, int | None, int | None, int | None]]] = {}
    for info in event.queues:
        if info.dropped:
            continue
        mq = info.mq
        broker, topic, queue_id = place = mq.broker, mq.topic, mq.queue_id
        if state.first_offsets or queue_id not in committed.get(broker, {}).get(topic, ()):
            _note_first(state, info)
        known = former_queues.get(place)
        queue = client.queues[place] = known or ClientQueue()
        if queue.take(info, behind_ms, ordered=event.orderly) or repeats or known is None:
            stamps = queue.lock_at or None, queue.pull_at or None, queue.consume_at or None
            changed.setdefault(broker, []).append((topic, queue_id, queue.cached_count, *stamps))
    if repeats:
        client.repeated_at = at
    if event.pop_queues or client.popped:
        client.popped = tuple(sorted({one.topic for one in event.pop_queues if not one.dropped}))
    popped = _popped(event, at, interval, behind_ms) if event.pop_queues else []
    return popped + [
        msgspec.structs.replace(
            _empty(event, broker, at, max(interval, REPEATED_AFTER)),
            client_id=event.client_id,
            topic=topic,
            queue_id=queue_id,
            cached_count=cached_count,
            lock_at=lock_at,
            pull_at=pull_at,
            consume_at=consume_at,
        )
        for broker, rows in changed.items()
        for topic, queue_id, cached_count, lock_at, pull_at, consume_at in [zip(*rows, strict=True)]
    ]


def _popped(event: ConsumerRunningInfo, at: int, interval_ms: int, client_behind_ms: int) -> list[QueueProgress]:
    """Return the rows of the queues that a client pops: what it has popped and not acknowledged, and when it popped.

    Both change all the time, so every answer is written.
    """
    by_broker: dict[str, list[PopProcessQueueInfo]] = {}
    for queue in event.pop_queues:
        if not queue.dropped:
            by_broker.setdefault(queue.broker, []).append(queue)
    return [
        msgspec.structs.replace(
            _empty(event, broker, at, interval_ms),
            client_id=event.client_id,
            topic=tuple(one.topic for one in queues),
            queue_id=tuple(one.queue_id for one in queues),
            in_flight=tuple(one.wait_ack_count for one in queues),
            pull_at=tuple(one.pop_time + client_behind_ms if one.pop_time else None for one in queues),
        )
        for broker, queues in by_broker.items()
    ]


def _empty(event: Answer, broker: str, time: int, interval_ms: int) -> QueueProgress:
    """Return a row of an answer, without any queue yet."""
    return QueueProgress(
        cluster=event.cluster,
        group=event.group,
        broker=broker,
        time=time,
        asked_at=event.asked or None,
        interval_ms=interval_ms,
        source="POLL",
        kind=_kind_of(type(event)),
        topic=(),
        queue_id=(),
    )


def _answered(event: Answer) -> int:
    """Return when the answer came; its event's time if that is not reported, or can't be."""
    is_possible = 0 < event.answered <= event.time <= event.answered + FUTURE_MS_MAX
    return event.answered if is_possible else event.time


def _forget(state: ProgressState, before: int) -> None:
    """Forget clients whose queues were last written before a time, and answers that came before it."""
    for client in [client for client, known in state.clients.items() if known.repeated_at < before]:
        del state.clients[client]
    for name in [name for name, known in state.spacings.items() if known.answered < before]:
        del state.spacings[name]


def _interval(state: ProgressState, event: Answer, client_id: str, policy: Policy) -> tuple[int, int]:
    """Note the answer; return the shorter of the last two gaps between answers of its kind (ms), and when it came.

    A longer gap shows that a request was left out, not that requests are less frequent.
    """
    name = _name_of(event.source_id, type(event), event.broker, client_id)
    at, spacing = _answered(event), state.spacings.get(name)
    if spacing is None:
        spacing = state.spacings[name] = Spacing(at)
    elif at > spacing.answered:
        spacing.gaps_ms = (*spacing.gaps_ms[-1:], at - spacing.answered)
    spacing.answered, gaps = at, spacing.gaps_ms
    interval = min(*gaps, INTERVAL_MAX) if gaps else policy.of_group(event.cluster, event.group).poll_interval
    return interval, at


@cache
def _kind_of(event: type[Answer]) -> str:
    return str(event.__struct_config__.tag)


@lru_cache(maxsize=65_536)
def _name_of(source_id: str, kind: type[Answer], broker: str, client_id: str) -> str:
    """Return the key of `ProgressState.spacings`; the same few are made for every answer."""
    return f"{instance_of(source_id)[0]} {_kind_of(kind)} {broker} {client_id}".rstrip()


def _by_broker(infos: Iterable[_T]) -> dict[str, list[_T]]:
    """Group the queues of an answer by broker."""
    by_broker: dict[str, list[_T]] = {}
    for info in infos:
        by_broker.setdefault(info.mq.broker, []).append(info)
    return by_broker


def _first_offset(state: ProgressState, mq: MessageQueue) -> int | None:
    """Return the first message that waits at a client, if the queue has no commit."""
    return state.first_offsets.get(mq.broker, {}).get(mq.topic, {}).get(mq.queue_id)


def _note_first(state: ProgressState, info: ProcessQueueInfo) -> None:
    """Note the first message that a client has of a queue, while no commit of the queue was seen."""
    mq, first = info.mq, info.first_offset
    if first is not None and mq.queue_id not in state.committed.get(mq.broker, {}).get(mq.topic, ()):
        state.first_offsets.setdefault(mq.broker, {}).setdefault(mq.topic, {})[mq.queue_id] = first
    elif mq.broker in state.first_offsets:
        state.first_offsets[mq.broker].get(mq.topic, {}).pop(mq.queue_id, None)


def _lag(state: ProgressState, info: OffsetInfo, commit: int | None) -> int | None:
    """Return how many messages wait; 0 where nothing was ever sent."""
    position = commit if commit is not None else _first_offset(state, info.mq)
    return 0 if position is None and info.broker_offset == 0 else behind_by(info.broker_offset, position)
