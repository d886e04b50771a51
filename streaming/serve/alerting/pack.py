"""Combine alerts into messages: those of one group together, or a summary if there are too many."""

from itertools import takewhile

from streaming.serve.alerting.alert import delivery_key
from streaming.serve.alerting.config import Limit
from streaming.serve.alerting.dispatcher import Dispatcher
from streaming.serve.alerting.state import ChannelQueue, WaitingAlert

AHEAD = 16
"""The number of messages decided at a time, with one commit of the ledger, which takes longer than most messages. Later
alerts must wait for them, so for a slow channel it is one."""


def pack(dispatcher: Dispatcher, channel: str, limit: Limit | None, now: int, ahead: int = AHEAD) -> None:
    """Decide the next messages to a channel if alerts are due and the previous messages are finished.

    Args:
        dispatcher: has the alerts and records the decision.
        channel: the channel.
        limit: the rate limit; None for a channel that limits by itself, which gets all due alerts at once.
        now: epoch milliseconds.
        ahead: the maximum number of messages.
    """
    queue = dispatcher.state.queues.get(channel)
    if queue is None or queue.packed:
        return
    for _ in range(ahead):
        if not _packed_one(dispatcher, queue, channel, limit, now):
            return


def _packed_one(dispatcher: Dispatcher, queue: ChannelQueue, channel: str, limit: Limit | None, now: int) -> bool:
    packed = {key for one in queue.packed for key in one.keys}
    left = [one for key, one in queue.waiting.items() if key not in packed]
    due = {one.alert.bucket for one in left if one.due <= now}
    chosen = [one for one in left if one.alert.bucket in due]
    if not chosen:
        return False
    summary = False
    if limit is not None:
        sent = len(list(takewhile(lambda time: time > now - limit.span, reversed(queue.sent))))
        free = limit.messages - sent - len(queue.packed)
        if free <= 0:
            return False
        if free > 1 or len(due) == 1:
            chosen = _first_bucket(chosen)
            summary = len(chosen) > limit.alerts
        else:
            summary = True
    keys = [one.alert.key for one in chosen]
    dispatcher.pack(channel, keys, delivery_key(tuple(keys)), summary=summary, now=now)
    return True


def _first_bucket(chosen: list[WaitingAlert]) -> list[WaitingAlert]:
    """Return the alerts of the group that is due first."""
    first = min(chosen, key=lambda one: one.due)
    return [one for one in chosen if one.alert.bucket == first.alert.bucket]
