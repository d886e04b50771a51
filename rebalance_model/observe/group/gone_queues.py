"""Forget the queues that are gone: of a topic that was deleted, of a route that has shrunk, or that never were.

A group may live for years, its topics change, and a client may commit an offset of any number.
"""

from rebalance_model.observe.state import QueueState
from rebalance_model.observe.step import GroupStep


def forget(step: GroupStep) -> None:
    """Forget queues without a route, owner, incident, answer or call for `Policy.group_memory`."""
    state = step.state
    if state.episode is not None:
        return
    before = step.now - step.policy.group_memory
    at_clients = {mq for client in state.clients.values() for mq in client.queues}
    gone = [mq for mq, queue in state.queues.items() if _is_unused(queue) and _last_seen(queue) < before]
    for mq in gone:
        if mq not in at_clients and not step.is_unsettled(mq):
            del state.queues[mq]
            step.touched.pop(mq, None)
            step.queues_to_judge.pop(mq, None)


def _is_unused(queue: QueueState) -> bool:
    holder = queue.hook_view.holder if queue.hook_view is not None else None
    return not queue.in_route and queue.owner is None and queue.expected_owner is None and holder is None


def _last_seen(queue: QueueState) -> int:
    """Return when an answer or a call was last about the queue, or it had an owner; epoch milliseconds."""
    polled, view = max(queue.stats_at, queue.released_at or 0), queue.hook_view
    if view is None:
        return polled
    return max(polled, view.commit_time, view.pull_time, view.asked_at, view.observed_at, view.last_sign)
