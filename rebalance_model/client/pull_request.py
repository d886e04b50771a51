"""The request object that is reused by every pull of a queue: created by rebalance, dropped with its queue."""

from dataclasses import dataclass
from typing import Literal

from rebalance_model.client.cached_messages import CachingProcessQueue
from rebalance_model.client.process_queue import PopProcessQueue
from rebalance_model.entities import MessageQueue


@dataclass(slots=True, eq=False)
class PullRequest:
    """Where the next pull of a process queue begins."""

    message_queue: MessageQueue
    process_queue: CachingProcessQueue
    next_offset: int
    previously_locked: bool = False
    """An ordered queue reads its committed offset again at the first pull under a lock (`lockedFirst` before 4.9)."""


@dataclass(slots=True, eq=False)
class PopRequest:
    """Where the next pop of a process queue begins."""

    message_queue: MessageQueue
    pop_process_queue: PopProcessQueue
    init_mode: Literal["MIN", "MAX"]
    """Where a group that has never popped the queue begins."""
