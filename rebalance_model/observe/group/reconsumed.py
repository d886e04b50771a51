"""How many messages a queue's move made to be consumed twice: an estimate, and its bounds.

By the broker's hook: the heir begins where it first pulls. What its former owner has committed beyond that is consumed
twice for sure; what it had pulled beyond that may have been; what it had consumed, at its own pace since its last
commit, is the estimate. A former owner that unlocks has committed what it consumed, so its bounds are one.

By polls alone: the heir began at the last commit that was seen or later, and its former owner cannot have consumed more
than there was. No estimate.
"""

from typing import NamedTuple

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.state import GroupState, HookQueue, Move


class Reconsumed(NamedTuple):
    """Messages that are consumed twice; None where that is not known."""

    likely: int | None = None
    least: int | None = None
    most: int | None = None


def of_move(state: GroupState, mq: MessageQueue, move: Move) -> Reconsumed:
    """Of one queue that has an heir."""
    queue = state.queues[mq]
    if move.to_client is None or move.from_client is None:
        return Reconsumed()
    if queue.hook is not None and (found := _by_hook(queue.hook, move)) is not None:
        return found
    if move.commit is None or queue.broker_offset is None:
        return Reconsumed()
    return Reconsumed(None, 0, max(0, queue.broker_offset - move.commit))


def in_all(moves: list[Reconsumed]) -> Reconsumed:
    """Of a whole rebalance: what is not known of one queue is not known of all, but for the least."""
    least = [one.least for one in moves if one.least is not None]
    if moves and not least:
        return Reconsumed()
    likely = [one.likely for one in moves if one.likely is not None]
    most = [one.most for one in moves if one.most is not None]
    return Reconsumed(
        sum(likely) if len(likely) == len(moves) else None,
        sum(least),
        sum(most) if len(most) == len(moves) else None,
    )


def _by_hook(told: HookQueue, move: Move) -> Reconsumed | None:
    left, start = told.left, told.start_offset
    if left is None or start < 0 or left.commit < 0:
        return None
    if (left.client_id, told.holder) != (move.from_client, move.to_client):
        return None  # it went through several hands
    least = max(0, left.commit - start)
    most = max(least, left.pulled - start) if left.pulled >= 0 else None
    if left.consumed < 0:
        return Reconsumed(None, least, most)
    likely = max(least, left.consumed - start)
    return Reconsumed(likely if most is None else min(likely, most), least, most)
