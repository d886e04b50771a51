"""A queue that a client has dropped but still keeps.

A client that loses an ordered queue drops it and unlocks it, but not while its listener is working on a message
(RebalancePushImpl.removeUnnecessaryMessageQueue, tryLock on the consume lock). Two rules use this: UNLOCK_PENDING, and
ZOMBIE_QUEUE if the queue is assigned to that client again before it is removed.
"""

from collections.abc import Mapping

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.rules.rule import Evidence, Unit
from rebalance_model.observe.state import ClientView, ProcessQueueView
from rebalance_model.observe.step import GroupStep

UNITS: Mapping[str, Unit] = {
    "owner": "text",
    "expected_owner": "text",
    "kept_by": "text",
    "dropped_ms": "ms",
    "unlock_attempts": "count",
    "in_listener": "messages",
}
"""Units of the fields that `evidence` returns."""


def kept(step: GroupStep, q: QueueFacts) -> tuple[str, ClientView, ProcessQueueView] | None:
    """Return the client that keeps the dropped queue, and the queue in its last answer; None if there is none."""
    keeper = q.queue.dropped_by
    if keeper is None:
        return None
    client = step.state.clients.get(keeper)
    process_queue = client.queues.get(q.mq) if client is not None else None
    if client is None or process_queue is None or not process_queue.dropped or q.mq.is_retry:
        return None
    return keeper, client, process_queue


def evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return which client keeps the queue, for how long (ms), and how often it has tried to unlock it."""
    queue, dropped = q.queue, kept(step, q)
    fields: Evidence = {"owner": queue.owner, "expected_owner": queue.expected_owner, "kept_by": None}
    if dropped is not None:
        keeper, client, process_queue = dropped
        fields |= {
            "kept_by": keeper,
            "dropped_ms": client.asked_at_answer - process_queue.claimed_since,
            "unlock_attempts": process_queue.try_unlock_times,
            "in_listener": process_queue.transaction_count,
        }
    return fields
