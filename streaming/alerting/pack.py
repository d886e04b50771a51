"""What goes in the next messages to a channel: one group's alerts together, a summary when there are too many."""

from itertools import takewhile

from streaming.alerting.alert import delivery_key
from streaming.alerting.book import Lane, Waiting
from streaming.alerting.config import Limit
from streaming.alerting.decide import Desk

AHEAD = 16
"""So many messages are decided at a time: that is a commit of the ledger, which takes longer than most messages. What
comes meanwhile waits for them, so to a channel that takes its time they go one by one."""


def pack(desk: Desk, channel: str, limit: Limit | None, now: int, ahead: int = AHEAD) -> None:
    """Decide the next messages to a channel, if there are any to be sent now and those before are done with.

    Args:
        desk: has the lane, and takes the decision.
        channel: whose lane.
        limit: None for a channel that groups and limits by itself: it gets all that is due, at once.
        now: epoch milliseconds.
        ahead: how many messages at most.
    """
    lane = desk.book.lanes.get(channel)
    if lane is None or lane.packed:
        return
    for _ in range(ahead):
        if not _packed_one(desk, lane, channel, limit, now):
            return


def _packed_one(desk: Desk, lane: Lane, channel: str, limit: Limit | None, now: int) -> bool:
    packed = {key for one in lane.packed for key in one.keys}
    left = [one for key, one in lane.waiting.items() if key not in packed]
    due = {one.alert.bucket for one in left if one.due <= now}
    chosen = [one for one in left if one.alert.bucket in due]
    if not chosen:
        return False
    summary = False
    if limit is not None:
        sent = len(list(takewhile(lambda time: time > now - limit.span, reversed(lane.sent))))
        free = limit.messages - sent - len(lane.packed)
        if free <= 0:
            return False
        if free > 1 or len(due) == 1:
            chosen = _first_bucket(chosen)
            summary = len(chosen) > limit.alerts
        else:
            summary = True
    keys = [one.alert.key for one in chosen]
    desk.pack(channel, keys, delivery_key(tuple(keys)), summary=summary, now=now)
    return True


def _first_bucket(chosen: list[Waiting]) -> list[Waiting]:
    """The alerts of the group whose turn it is: what is at once goes before what has gathered."""
    first = min(chosen, key=lambda one: one.due)
    return [one for one in chosen if one.alert.bucket == first.alert.bucket]
