"""What goes in the next message to a channel: one group's alerts together, and a summary when there are too many."""

from itertools import takewhile

from streaming.alerting.alert import delivery_key
from streaming.alerting.book import Waiting
from streaming.alerting.config import Limit
from streaming.alerting.decide import Desk


def pack(desk: Desk, channel: str, limit: Limit | None, now: int) -> None:
    """Decide the next message to a channel, if there is one to be sent now.

    Args:
        desk: has the lane, and takes the decision.
        channel: whose lane.
        limit: None for a channel that groups and limits by itself: it gets all that is due, at once.
        now: epoch milliseconds.
    """
    lane = desk.book.lanes.get(channel)
    if lane is None or lane.packed is not None:
        return
    due = {one.alert.bucket for one in lane.waiting.values() if one.due <= now}
    chosen = [one for one in lane.waiting.values() if one.alert.bucket in due]
    if not chosen:
        return
    summary = False
    if limit is not None:
        free = limit.messages - len(list(takewhile(lambda time: time > now - limit.span, reversed(lane.sent))))
        if free <= 0:
            return
        if free > 1 or len(due) == 1:
            chosen = _first_bucket(chosen)
            summary = len(chosen) > limit.alerts
        else:
            summary = True
    keys = [one.alert.key for one in chosen]
    desk.pack(channel, keys, delivery_key(tuple(keys)), summary=summary, now=now)


def _first_bucket(chosen: list[Waiting]) -> list[Waiting]:
    """The alerts of the group whose turn it is: what is at once goes before what has gathered."""
    first = min(chosen, key=lambda one: one.due)
    return [one for one in chosen if one.alert.bucket == first.alert.bucket]
