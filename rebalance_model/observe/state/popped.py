"""Messages in flight of one popped queue: they were handed out, and are neither acked nor given back.

A broker hands out the messages of a queue in the order of their offsets (POP_MESSAGE), to any client of the group. A
client acks or refuses each by itself; a message that is neither is given to another client when it has been invisible
for long enough: the broker copies it to the group's retry topic, a queue of its own (PopReviveService). A queue that is
popped in order has no retry topic: it stays blocked until each message of its batch is acked, or invisible no longer.

The hook reports acks and changes, but not what a POP was answered. So a message below an acked one was popped no later
than that one, and a poll's answer shows how far the queue has been popped by then: ranges of offsets that are unacked,
each with the latest time at which it can have been popped. What is not known makes the number in flight a lower bound
(`is_at_least`): messages that were popped before the first call of the queue, before a gap in the telemetry or a
reset of the offset, or beyond the bounds of this state, until all of them must have been acked or given back.

Total: any order of valid events has a result, and the state stays within its bounds.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Literal

import msgspec

from rebalance_model.observe.events.hook_events import AckMessage, ChangeMessageInvisibletime, PopMessage

UNACKED_MAX = 256
"""Ranges of unacked offsets that are kept of a queue."""
HELD_MAX = 64
"""Number of held messages that are kept of a queue."""
STEP_MAX = 4_096
"""The offset goes no further without an ack or an answer between, unless somebody has set it."""
REVIVED_WITHIN = 5_000
"""A message is in the retry topic this long after it ceased to be invisible (seen: 0.5 to 4.8 s); milliseconds."""
RENEWALS_MS = frozenset({60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000})
"""The time that a proxy renews a message whose client has not finished it (RetryPolicy of renewals)."""
RENEWED_WITHIN = 10_500
"""A proxy renews a message that is invisible for no longer than this (renewAheadTimeMillis, 10 s); milliseconds."""
DONE = (None, 0)
"""Response codes of a call that the broker accepts: later, or at once."""


class Unacked(msgspec.Struct, array_like=True):
    """Messages that follow each other, were popped, and are not acked."""

    first: int
    last: int
    popped_by: int
    """The latest time at which they can have been popped, epoch milliseconds."""
    invisible_ms: int
    """The time that no other client gets them after that."""

    @property
    def count(self) -> int:
        """Return how many they are."""
        return self.last - self.first + 1

    @property
    def visible_at(self) -> int:
        """Return until when they are invisible."""
        return self.popped_by + self.invisible_ms

    @property
    def returned_at(self) -> int:
        """Return when all of them have been given back, unless they are acked."""
        return self.visible_at + REVIVED_WITHIN


class HeldMessage(msgspec.Struct, array_like=True):
    """A message that a proxy has renewed, or one in order that is not to be given to another client yet."""

    first_pop: int
    """When it was popped first; epoch milliseconds, as the others."""
    newest_pop: int
    """When it was popped last, or renewed: an ack of another delivery has no effect in order."""
    until: int
    """Until when no other client gets it."""


class PoppedQueue(msgspec.Struct, array_like=True):
    """The state of a popped queue; -1 and 0: nothing yet."""

    popped_to: int = -1
    """The offset after the highest one that is known to be popped."""
    popped_at: int = 0
    """When the newest popped of the acked or changed messages was popped."""
    acked_to: int = -1
    """The offset after the highest acked one."""
    finished_at: int = 0
    """When a message was last acked or refused."""
    answered_to: int = -1
    """The offset to which it was popped by the last answer of a poll."""
    complete_at: int = 0
    """From when on all that is in flight is known, unless messages of it were popped in order."""
    invisible_ms: int = 0
    """The time that no other client gets a message that is popped now."""
    order: bool = False
    """True if it is popped in order."""
    filtered: bool = False
    """True if messages that match no expression are popped, and never acked: what is in flight is unknown."""
    unacked: list[Unacked] = []
    """In the order of their offsets."""
    held_messages: dict[int, HeldMessage] = {}
    """Messages by offset; not among the unacked ones."""


def on_pop(queue: PoppedQueue, event: PopMessage) -> None:
    """Process POPs of the queue, or of all queues of its topic at its broker."""
    if event.code not in DONE:
        return
    queue.invisible_ms, queue.order, queue.filtered = event.invisible_ms, event.order, event.filtered
    if queue.filtered:
        queue.unacked = []
    cover(queue, event.time)


def on_ack(queue: PoppedQueue, event: AckMessage) -> None:
    """Process acks of a second; one of another delivery than the newest has no effect in order."""
    if event.code not in DONE:
        return
    now, popped = event.time, min(event.pop_time_max, event.time)
    below_all = min(event.pop_time_min, popped)  # of the lowest acked one: messages are popped in order
    queue.order = event.order
    queue.invisible_ms = queue.invisible_ms or event.invisible_ms
    cover(queue, now)
    if _has_fallen(queue, event):
        forget(queue, now)
    _remove_unacked(queue, event.ranges)
    for offset in [one for one in queue.held_messages if _is_in(event.ranges, one)]:
        if not event.order or queue.held_messages[offset].newest_pop <= event.pop_time_max:  # or of a later delivery
            del queue.held_messages[offset]
    lowest = event.ranges[0][0]
    for first, last in event.ranges:
        _popped_to(queue, first, below_all if first == lowest else popped, event.invisible_ms, now)
        queue.popped_to = max(queue.popped_to, last + 1)
    _keep_bounds(queue)
    for below in reversed(queue.unacked):
        if below.popped_by <= below_all:
            break
        if below.last < lowest:
            below.popped_by = below_all
        elif below.last < last:
            below.popped_by = min(below.popped_by, popped)
    queue.popped_at, queue.finished_at = max(queue.popped_at, popped), now
    queue.acked_to = max(queue.acked_to, last + 1)


def on_change(
    queue: PoppedQueue, event: ChangeMessageInvisibletime, *, by_proxy: bool
) -> Literal["RENEWED", "REFUSED", ""]:
    """Process a change of a message's invisible time.

    Args:
        queue: its queue.
        event: the call.
        by_proxy: whether a proxy called; a remoting client never renews a message.

    Returns:
        Whether the message was renewed, or refused and comes back in the retry topic; empty: the broker refused.
    """
    if event.code not in DONE:
        return ""
    now, popped, offset = event.time, min(event.pop_time, event.time), event.offset
    queue.order = event.order
    cover(queue, now)
    _popped_to(queue, offset, popped, event.invisible_ms, now)
    _remove_unacked(queue, ((offset, offset),))
    _keep_bounds(queue)
    queue.popped_to = max(queue.popped_to, offset + 1)
    queue.popped_at = max(queue.popped_at, popped)
    message = queue.held_messages.pop(offset, None)
    left = popped + event.invisible_ms - now
    renewed = by_proxy and event.changed_ms in RENEWALS_MS and left <= RENEWED_WITHIN
    if renewed or event.order:
        until = now + event.changed_ms
        if len(queue.held_messages) < HELD_MAX:
            newest = popped if event.order else now
            queue.held_messages[offset] = HeldMessage(message.first_pop if message else popped, newest, until)
        else:
            queue.complete_at = max(queue.complete_at, until + REVIVED_WITHIN)
    if not renewed:
        queue.finished_at = now
    return "RENEWED" if renewed else "REFUSED"


def on_offsets(queue: PoppedQueue, now: int, *, commit_offset: int, pull_offset: int) -> None:
    """Process a broker's offsets of the queue (GET_CONSUME_STATS).

    The commit advances when messages are popped, or, where they are kept in RocksDB, with the next POP; then the pull
    offset is how far it was popped. In order the commit stays at the first message that is not acked.
    """
    popped_to = max(commit_offset, pull_offset)
    if popped_to < 0:
        return
    if popped_to < queue.answered_to:
        forget(queue, now)
    queue.answered_to = popped_to
    if queue.order:
        _remove_unacked(queue, ((0, commit_offset - 1),))
        queue.held_messages = {offset: held for offset, held in queue.held_messages.items() if offset >= commit_offset}
    elif queue.complete_at:
        _popped_to(queue, popped_to, now, queue.invisible_ms, now)
        _keep_bounds(queue)
    queue.popped_to = max(queue.popped_to, popped_to)


def give_back(queue: PoppedQueue, now: int) -> int:
    """Forget the messages that have been given back; return how many came back in the retry topic.

    In order they are popped again from the queue itself, and held ones block it until they are acked.
    """
    if not queue.unacked and not queue.held_messages:
        return 0
    count = sum(one.count for one in queue.unacked if one.returned_at < now)
    if count:
        queue.unacked = [one for one in queue.unacked if one.returned_at >= now]
    if queue.order:
        return 0
    for offset in [one for one, held in queue.held_messages.items() if held.until + REVIVED_WITHIN < now]:
        del queue.held_messages[offset]
        count += 1
    return count


def forget(queue: PoppedQueue, now: int) -> None:
    """Begin again, after a gap in the telemetry, a restart of the broker, or where the offset was set."""
    queue.popped_to = queue.acked_to = queue.answered_to = -1
    queue.popped_at = 0
    queue.unacked, queue.held_messages = [], {}
    if queue.complete_at:
        queue.complete_at = now + queue.invisible_ms + REVIVED_WITHIN


def in_flight(queue: PoppedQueue, now: int = 0) -> int | None:
    """Return how many messages are in flight, or at least (`is_at_least`); None: unknown.

    One that is visible again at ``now`` is in the retry topic, or about to be: it counts there, and not twice.
    """
    if not queue.complete_at or queue.filtered:
        return None
    return sum(one.count for one in queue.unacked if one.visible_at >= now) + len(_held(queue, now))


def is_at_least(queue: PoppedQueue, now: int) -> bool:
    """Return whether more messages may be in flight than are known, or be on their way into the retry topic."""
    if queue.order or now < queue.complete_at or len(_held(queue, now)) < len(queue.held_messages):
        return True
    return any(one.visible_at < now <= one.returned_at for one in queue.unacked)


def in_flight_since(queue: PoppedQueue, now: int = 0) -> int | None:
    """Return the latest time at which the oldest message in flight can have been popped, epoch milliseconds."""
    since = [one.popped_by for one in queue.unacked if one.visible_at >= now]
    since += [one.first_pop for one in _held(queue, now)]
    return min(since, default=None)


def _held(queue: PoppedQueue, now: int) -> list[HeldMessage]:
    """Return the held messages that no other client has got; in order, they block the queue until they are acked."""
    return [one for one in queue.held_messages.values() if queue.order or one.until >= now]


def cover(queue: PoppedQueue, now: int) -> None:
    """Note that the queue's calls are observed: all that was popped before is given back after its invisible time."""
    if not queue.complete_at:
        queue.complete_at = now + queue.invisible_ms + REVIVED_WITHIN


def _has_fallen(queue: PoppedQueue, event: AckMessage) -> bool:
    """Return whether acked messages were popped after higher ones, so that the offset was set back, or began again.

    A message that its client has kept for longer, and acks late, was popped newly, too, by the time in its handle.
    """
    if event.order or event.pop_time_min <= queue.popped_at or event.ranges[-1][1] >= queue.popped_to:
        return False
    is_near = queue.popped_to - event.ranges[-1][1] <= STEP_MAX
    if is_near and event.pop_time_min - queue.popped_at <= queue.invisible_ms + REVIVED_WITHIN:
        return False
    if len(queue.held_messages) == HELD_MAX or any(_is_in(event.ranges, one) for one in queue.held_messages):
        return False
    unacked = [(one.first, one.last) for one in queue.unacked]
    return not any(_is_in(event.ranges, first) for first, _ in unacked) and not any(
        _is_in(unacked, first) for first, _ in event.ranges
    )


def _is_in(ranges: Sequence[Sequence[int]], offset: int) -> bool:
    """Return whether an offset is in one of the ranges, which are in order."""
    index = bisect_right(ranges, offset, key=itemgetter(0)) - 1
    return index >= 0 and offset <= ranges[index][1]


def _popped_to(queue: PoppedQueue, offset: int, popped_by: int, invisible_ms: int, now: int) -> None:
    """Note that all messages below an offset were popped by a time."""
    if 0 <= queue.popped_to < offset:
        if offset - queue.popped_to > STEP_MAX:
            forget(queue, now)
        elif not queue.filtered:
            queue.unacked.append(Unacked(queue.popped_to, offset - 1, popped_by, invisible_ms))
    queue.popped_to = max(queue.popped_to, offset)


def _remove_unacked(queue: PoppedQueue, ranges: Sequence[Sequence[int]]) -> None:
    """Take ranges of offsets, which are in order, out of the unacked ones."""
    if not queue.unacked or queue.unacked[-1].last < ranges[0][0] or ranges[-1][1] < queue.unacked[0].first:
        return
    kept: list[Unacked] = []
    index = 0
    for span in queue.unacked:
        while index < len(ranges) and ranges[index][1] < span.first:
            index += 1
        while index < len(ranges) and ranges[index][0] <= span.last:
            first, last = ranges[index]
            if span.first < first:
                kept.append(Unacked(span.first, first - 1, span.popped_by, span.invisible_ms))
            span.first = last + 1
            if last > span.last:
                break  # it may reach into the next ones
            index += 1
        if span.first <= span.last:
            kept.append(span)
    queue.unacked = kept


def _keep_bounds(queue: PoppedQueue) -> None:
    """Join ranges that follow each other, those that were popped at the nearest times; or forget the highest ones."""
    excess = len(queue.unacked) - UNACKED_MAX
    if excess <= 0:
        return
    apart = sorted(
        (after.popped_by - before.popped_by, index)
        for index, (before, after) in enumerate(pairwise(queue.unacked))
        if before.last + 1 == after.first and before.invisible_ms == after.invisible_ms
    )
    for _, index in sorted(apart[:excess], key=itemgetter(1)):
        queue.unacked[index + 1].first = queue.unacked[index].first
    joined = {index for _, index in apart[:excess]}
    queue.unacked = [one for index, one in enumerate(queue.unacked) if index not in joined]
    for forgotten in queue.unacked[UNACKED_MAX:]:
        queue.complete_at = max(queue.complete_at, forgotten.returned_at)
    del queue.unacked[UNACKED_MAX:]
