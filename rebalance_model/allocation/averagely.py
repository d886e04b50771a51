"""AVG: contiguous shares whose sizes differ by at most one (AllocateMessageQueueAveragely)."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from rebalance_model.allocation.strategy import CheckedStrategy
from rebalance_model.entities import MessageQueue


class Averagely(CheckedStrategy):
    """The default strategy. The first ``M % N`` clients get one queue more than the rest."""

    name = "AVG"
    java_class: ClassVar[str] = "AllocateMessageQueueAveragely"

    def _divide(
        self, group: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> Callable[[int], list[MessageQueue]]:
        del group
        size, left_over = divmod(len(mq_all), len(cid_all))

        def share(place: int) -> list[MessageQueue]:
            start = place * size + min(place, left_over)
            return list(mq_all[start : start + size + (place < left_over)])

        return share
