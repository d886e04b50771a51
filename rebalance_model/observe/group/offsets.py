"""Return how far a queue is consumed, as its broker's hook or its answers show it."""

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.state import QueueState


def committed(q: QueueFacts) -> int | None:
    """Return the queue's commit: the last one that the broker's hook saw; without a hook, the last one answered."""
    if q.hook is not None and q.seen is not None and q.seen.commit_offset >= 0:
        return q.seen.commit_offset
    return position_of(q.queue)


def position_of(queue: QueueState) -> int | None:
    """Return the offset of the first message that is not consumed, by answers; None if it is unknown.

    A broker answers 0 both for "committed 0" and for "none stored" (AdminBrokerProcessor.getConsumeStats). While no
    other commit was seen, the first message that the owner has cached or in its listener is the position.
    """
    return queue.commit_offset if queue.commit_known else queue.first_offset


def lag_of(queue: QueueState) -> int | None:
    """Return how many messages wait; None if that is unknown.

    It is unknown where nothing shows a commit, unless nothing was ever sent to the queue; and where the commit is
    beyond the newest offset, as after its topic was created again.
    """
    position = queue.commit_offset if queue.commit_known else queue.first_offset  # `position_of`
    if queue.broker_offset is None or (position is None and queue.broker_offset > 0):
        return None
    return queue.broker_offset - (position or 0) if (position or 0) <= queue.broker_offset else None
