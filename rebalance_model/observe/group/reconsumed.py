"""Estimate how many messages are consumed again because a queue moved, with bounds.

By the broker's hook: the new owner begins where it first pulls. The messages beyond that offset that its former owner
had committed, or that were committed for it, are certainly consumed again; those that the former owner had pulled
further may be. The estimate is what it had consumed, by its rate since its last commit. A former owner that unlocks has
committed what it consumed, so the bounds coincide. A client that continues with its existing process queue, as after
its broker's restart, reads nothing again. If a queue had several owners within a rebalance, their rereads are added up.

By polls alone: the new owner began at the last observed commit or later, and its former owner can't have consumed more
than there was. There is no estimate.
"""

from typing import NamedTuple

from rebalance_model.observe.effects import QueueMove
from rebalance_model.observe.state import Move, QueueState


class Reconsumed(NamedTuple):
    """Messages that are consumed again; None if unknown."""

    likely: int | None = None
    least: int | None = None
    most: int | None = None


def of_move(queue: QueueState, move: Move, *, seen_by_hook: bool) -> Reconsumed:
    """Return the reread of one queue; None values if it had no owner before or has none now, without others in between.

    It is ``seen_by_hook`` if its broker's hook reports the present holder, and the holder before.
    """
    if move.to_client is None:
        least, likely, most = move.reread
        return Reconsumed(likely, least, most) if move.reread != (0, 0, 0) else Reconsumed()
    if seen_by_hook and queue.hook_view is not None and queue.hook_view.holder == move.to_client:
        last = by_hook(queue)
        if last.least is not None:
            least, likely, most = added(move.reread, last)
            return Reconsumed(likely, least, most)
    if move.from_client is None or move.commit is None or queue.broker_offset is None:
        return Reconsumed()
    return Reconsumed(None, 0, max(0, queue.broker_offset - move.commit))


def by_hook(queue: QueueState) -> Reconsumed:
    """Return what the present holder reads again of the messages consumed before it had the queue."""
    hook_view = queue.hook_view
    former, start = (hook_view.former, hook_view.start_offset) if hook_view is not None else (None, -1)
    if former is None or start < 0 or former.commit < 0:
        return Reconsumed()
    if hook_view is not None and former.client_id == hook_view.holder and hook_view.asked_at <= former.lost_at:
        return Reconsumed(0, 0, 0)
    pulled = former.pulled
    if queue.broker_offset is not None and queue.stats_at >= former.lost_at:
        pulled = min(pulled, queue.broker_offset)  # there were no more messages to pull
    least = max(0, former.commit - start)
    most = max(least, pulled - start) if pulled >= 0 else None
    if former.consumed < 0:
        return Reconsumed(None, least, most)
    likely = max(least, former.consumed - start)
    return Reconsumed(likely if most is None else min(likely, most), least, most)


def added(sums: tuple[int, int | None, int | None], more: Reconsumed) -> tuple[int, int | None, int | None]:
    """Add to what was read again at least, likely and at most; an unknown part makes the sum unknown."""
    least, likely, most = sums
    return (
        least + (more.least or 0),
        None if likely is None or more.likely is None else likely + more.likely,
        None if most is None or more.most is None else most + more.most,
    )


def in_all(moves: list[QueueMove]) -> Reconsumed:
    """Return the sums of a rebalance; one unknown queue makes the estimate and the upper bound unknown."""
    sums: tuple[int, int | None, int | None] = (0, 0, 0)
    for move in moves:
        sums = added(sums, Reconsumed(move.reconsumed, move.reconsumed_min, move.reconsumed_max))
    if moves and all(move.reconsumed_min is None for move in moves):  # nothing is known
        return Reconsumed()
    least, likely, most = sums
    return Reconsumed(likely, least, most)
