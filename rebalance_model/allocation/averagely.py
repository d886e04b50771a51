"""AVG: contiguous shares whose sizes differ by at most one (AllocateMessageQueueAveragely)."""

from collections.abc import Sequence
from typing import ClassVar

from rebalance_model.allocation.strategy import check
from rebalance_model.entities import MessageQueue


class Averagely:
    """The default strategy."""

    name: ClassVar[str] = "AVG"
    java_class: ClassVar[str] = "AllocateMessageQueueAveragely"

    def allocate(
        self, group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """The first ``M % N`` clients get one queue more than the rest."""
        del group
        if not check(current_cid, mq_all, cid_all):
            return []
        index = cid_all.index(current_cid)
        share, left_over = divmod(len(mq_all), len(cid_all))
        start = index * share + min(index, left_over)
        return list(mq_all[start : start + share + (index < left_over)])
