"""AVG_BY_CIRCLE: queues dealt out one by one (AllocateMessageQueueAveragelyByCircle)."""

from collections.abc import Sequence
from typing import ClassVar

from rebalance_model.allocation.strategy import check
from rebalance_model.entities import MessageQueue


class AveragelyByCircle:
    """Spreads a broker's queues over all clients."""

    name: ClassVar[str] = "AVG_BY_CIRCLE"
    java_class: ClassVar[str] = "AllocateMessageQueueAveragelyByCircle"

    def allocate(
        self, group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """Every N-th queue, from the client's own index on."""
        del group
        if not check(current_cid, mq_all, cid_all):
            return []
        return list(mq_all[cid_all.index(current_cid) :: len(cid_all)])
