"""MACHINE_ROOM: only queues of brokers in chosen rooms (AllocateMessageQueueByMachineRoom)."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar

from rebalance_model.allocation.errors import AllocationNullError
from rebalance_model.allocation.strategy import CheckedStrategy
from rebalance_model.entities import MessageQueue


@dataclass(frozen=True)
class ByMachineRoom(CheckedStrategy):
    """Gives shares of equal size from the front, then the remaining queues from the end to the first clients.

    A broker's room is the part of its name before the single ``@``; queues of other brokers are not assigned.
    """

    name = "MACHINE_ROOM"
    java_class: ClassVar[str] = "AllocateMessageQueueByMachineRoom"

    consumeridcs: AbstractSet[str] | None = None
    """The chosen rooms."""

    def _divide(
        self, group: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> Callable[[int], list[MessageQueue]]:
        del group
        chosen = [mq for mq in mq_all if self._is_chosen(mq.broker)]
        size = len(chosen) // len(cid_all)

        def share(place: int) -> list[MessageQueue]:
            start, tail = place * size, len(cid_all) * size + place
            return chosen[start : start + size] + chosen[tail : tail + 1]

        return share

    def _is_chosen(self, broker: str) -> bool:
        parts = broker.rstrip("@").split("@")  # Java's split drops empty parts at the end
        if len(parts) != 2:
            return False
        if self.consumeridcs is None:
            msg = "consumeridcs is null"
            raise AllocationNullError(msg)
        return parts[0] in self.consumeridcs
