"""A queue's quantities in words: what was observed, its bound, and that it is stale."""

from typing import Literal

from streaming.queries import words
from streaming.queries.answers import Queue


def lag_of(queue: Queue) -> str:
    """How many messages are not consumed."""
    bound: Literal["≥", ""] = "≥" if queue.lag_is_at_least else ""
    return words.quantity(words.number(queue.lag), queue.lag_age_ms, is_stale=queue.lag_is_stale, bound=bound)


def waiting_of(queue: Queue) -> str:
    """How long the next message has waited."""
    bound: Literal["≤", ""] = "≤" if queue.waiting_is_at_most else ""
    shown = words.duration(queue.waiting_ms)
    return words.quantity(shown, queue.waiting_age_ms, is_stale=queue.waiting_is_stale, bound=bound)
