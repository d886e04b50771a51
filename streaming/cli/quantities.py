"""Format the quantities of a queue with their bounds, marked if they are stale."""

from typing import Literal

from streaming.queries import labels
from streaming.queries.results import Queue


def lag_of(queue: Queue) -> str:
    """Format the lag of a queue, in messages."""
    bound: Literal["≥", ""] = "≥" if queue.lag_is_at_least else ""
    return labels.quantity(labels.number(queue.lag), queue.lag_age_ms, is_stale=queue.lag_is_stale, bound=bound)


def waiting_of(queue: Queue) -> str:
    """Format the waiting time of the queue's next message."""
    bound: Literal["≤", ""] = "≤" if queue.waiting_is_at_most else ""
    shown = labels.duration(queue.waiting_ms)
    return labels.quantity(shown, queue.waiting_age_ms, is_stale=queue.waiting_is_stale, bound=bound)
