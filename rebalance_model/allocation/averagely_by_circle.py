"""AVG_BY_CIRCLE: queues dealt out one by one (AllocateMessageQueueAveragelyByCircle)."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from rebalance_model.allocation.strategy import CheckedStrategy
from rebalance_model.entities import MessageQueue


class AveragelyByCircle(CheckedStrategy):
    """Spreads a broker's queues over all clients: every N-th queue, starting at the client's own index."""

    name = "AVG_BY_CIRCLE"
    java_class: ClassVar[str] = "AllocateMessageQueueAveragelyByCircle"

    def _divide(
        self, group: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> Callable[[int], list[MessageQueue]]:
        del group
        return lambda place: list(mq_all[place :: len(cid_all)])
