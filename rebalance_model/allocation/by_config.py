"""CONFIG: the queues that are configured for this client (AllocateMessageQueueByConfig)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rebalance_model.allocation.strategy import AllocateStrategy, Division
from rebalance_model.entities import MessageQueue


@dataclass(frozen=True)
class ByConfig(AllocateStrategy):
    """Returns the configured list to every client, for every topic; nothing is checked, not even whether it was set."""

    name = "CONFIG"
    java_class: ClassVar[str] = "AllocateMessageQueueByConfig"

    message_queue_list: list[MessageQueue] | None = None

    def division(self, group: str, mq_all: Sequence[MessageQueue] | None, cid_all: Sequence[str] | None) -> Division:
        """Return the configured list itself, not a copy, as Java does."""
        del group, mq_all, cid_all
        return lambda _: self.message_queue_list
