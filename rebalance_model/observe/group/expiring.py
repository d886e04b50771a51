"""Follow the oldest message that a broker stores of a queue, and tell how soon it deletes what the group has not read.

A store deletes whole files of its log, by age (fileReservedTime) or because its disk is full, whether their messages
were read or not. So the oldest offset advances in steps: its pace is measured from one deletion to the last one, and
counts until none has come for as long again.

The collector asks a broker only for the topic of which the group is furthest behind (GET_TOPIC_STATS_INFO). An answer
that is not repeated shows that the queue is so no longer.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import TopicOffset, TopicStats
from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.state import Deletion, OldestOffset, QueueState
from rebalance_model.observe.step import GroupStep

HOUR = 3_600_000
FRESH_FOR = 300_000
"""An answer counts for this time; milliseconds."""
_MEASURED_FOR = 120_000
"""A pace is measured over this time at least: files may be deleted together; milliseconds."""
_WINDOW = 3_600_000
"""A pace is measured over this time at most; milliseconds."""


def note_answer(step: GroupStep, event: TopicStats) -> None:
    """Process where the stored messages of a topic's queues begin; a slave's store has its own beginning."""
    if event.broker_id:
        return
    for info in event.queues or ():
        queue, read_to = step.state.queues.get(info.mq), _read_to(step, info.mq)
        if queue is None or read_to is None or (queue.oldest is not None and event.asked < queue.oldest.asked):
            continue
        queue.oldest = _followed(queue.oldest, info, read_to, event)
        step.changed("EXPIRING")


def deleted_unread(queue: QueueState, now: int) -> int:
    """Return how many messages the broker has deleted, as far as is known, that the group has not read; 0: none.

    They were deleted while the queue was observed: of one that was far behind before, nobody knows who wants it.
    """
    oldest = queue.oldest
    if oldest is None or not oldest.was_read or not _is_behind(queue, oldest, now):
        return 0
    return max(0, oldest.offset - _reached(queue, oldest))


def time_left(queue: QueueState, now: int) -> int | None:
    """Return when the broker deletes the first message that the group has not read, from now on; milliseconds.

    Returns:
        None: it does not, at the present pace of both, or that is unknown. Nor does a group that is nearer to the
        newest message than to the oldest one wait for deletion: a burst of it, as at `deleteWhen`, ends before.
    """
    oldest = queue.oldest
    pace = per_hour(oldest) if oldest is not None else None
    if oldest is None or oldest.since is None or pace is None:
        return None
    if not _is_behind(queue, oldest, now) or not _is_measured(oldest, oldest.since):
        return None
    distance, (deleted, read) = oldest.read_to - oldest.offset, pace
    is_near = 0 <= distance <= (queue.broker_offset or 0) - oldest.read_to
    return distance * HOUR // (deleted - max(0, read)) if is_near and deleted > max(0, read) else None


def per_hour(oldest: OldestOffset) -> tuple[int, int] | None:
    """Return how many messages an hour are deleted, and are read; None: fewer than two deletions were seen."""
    since = oldest.since
    if since is None or oldest.deleted_at <= since.at:
        return None
    deleted, read = oldest.offset - since.oldest, oldest.read_to - since.read_to
    return deleted * HOUR // (oldest.deleted_at - since.at), read * HOUR // (oldest.at - since.at)


def _is_measured(oldest: OldestOffset, since: Deletion) -> bool:
    """Return whether the pace of deletion is known, and deletion has not ended."""
    span = oldest.deleted_at - since.at
    return span >= _MEASURED_FOR and oldest.at - oldest.deleted_at <= span


def _read_to(step: GroupStep, mq: MessageQueue) -> int | None:
    """Return up to where the group has read the queue: what its owner has pulled is in its memory."""
    if mq not in step.state.queues:
        return None
    q = QueueFacts.of(step.facts, mq)
    pulled, commit = q.calls.pull_offset if q.calls is not None else -1, q.commit
    return max(commit.value, pulled, q.queue.pull_offset) if commit is not None else None


def _is_behind(queue: QueueState, oldest: OldestOffset, now: int) -> bool:
    """Return whether the last answer still counts, and messages wait."""
    is_fresh = queue.ended is None and now - oldest.at <= FRESH_FOR
    return is_fresh and queue.broker_offset is not None and queue.broker_offset > _reached(queue, oldest)


def _reached(queue: QueueState, oldest: OldestOffset) -> int:
    """Return up to where the group has read by now: it may have continued since, and is asked about no longer."""
    return max(oldest.read_to, queue.commit_offset or 0)


def _followed(old: OldestOffset | None, info: TopicOffset, read_to: int, event: TopicStats) -> OldestOffset:
    """Return what is known after an answer; where the group's offset was moved, the pace is measured from there."""
    offset, is_read = info.min_offset, read_to >= info.min_offset
    if old is None:
        return OldestOffset(offset, read_to, event.time, event.asked, was_read=is_read)
    since, then, deleted_at = old.since, old.then, old.deleted_at
    if read_to < old.read_to or old.read_to < old.offset <= read_to:
        since = then = None
    if offset > old.offset:
        deleted_at = event.time
        deletion = Deletion(event.time, offset, read_to)
        if since is None:
            since = deletion
        elif then is None and deletion.at - since.at >= _WINDOW // 2:
            then = deletion
        if deletion.at - since.at > _WINDOW:
            since, then = then, None
    return OldestOffset(offset, read_to, event.time, event.asked, since, then, deleted_at, old.was_read or is_read)
