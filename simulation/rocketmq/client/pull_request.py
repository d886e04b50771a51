"""The request object that is reused by every pull of a queue: created by rebalance, dropped with its queue."""

from dataclasses import dataclass
from typing import Literal

import msgspec

from rebalance_model.client import PULL_MAX_IDLE_TIME
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client.cached_messages import CachingProcessQueue


@dataclass(slots=True, eq=False)
class PullRequest:
    """The start of the next pull of a process queue."""

    message_queue: MessageQueue
    process_queue: CachingProcessQueue
    next_offset: int
    previously_locked: bool = False
    """An ordered queue reads its committed offset again at the first pull under a lock (`lockedFirst` before 4.9)."""


class PopProcessQueue(msgspec.Struct, eq=False):
    """The state of a queue that is popped instead of pulled: the number of messages that wait for their ack."""

    last_pop_timestamp: int
    wait_ack_msg_count: int = 0
    dropped: bool = False

    def is_pull_expired(self, now: int) -> bool:
        """Return whether the last pop of the queue is more than 120 s ago."""
        return now - self.last_pop_timestamp > PULL_MAX_IDLE_TIME


@dataclass(slots=True, eq=False)
class PopRequest:
    """The start of the next pop of a process queue."""

    message_queue: MessageQueue
    pop_process_queue: PopProcessQueue
    init_mode: Literal["MIN", "MAX"]
    """Where a group that has never popped the queue begins."""
