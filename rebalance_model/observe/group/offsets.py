"""Return how far a queue is consumed, as its broker's hook or its answers show it."""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.state import QueueState
from rebalance_model.observe.step import GroupStep


def committed(step: GroupStep, mq: MessageQueue, queue: QueueState) -> int | None:
    """Return the queue's commit: the last one that the broker's hook saw; without a hook, the last one answered."""
    hook_view = queue.hook_view if step.live_hook(step.state.views.get(mq.broker)) is not None else None
    return hook_view.commit_offset if hook_view is not None and hook_view.commit_offset >= 0 else queue.commit_offset


def lag_of(queue: QueueState) -> int | None:
    """Return how many messages wait; None if no commit was ever seen (the broker then answers 0)."""
    if queue.broker_offset is None or queue.commit_offset is None or not queue.commit_known:
        return None
    return max(0, queue.broker_offset - queue.commit_offset)
