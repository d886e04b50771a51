"""One computation of a division for all the clients that make it."""

from collections.abc import Sequence

from rebalance_model.allocation import AllocateStrategy
from rebalance_model.allocation.strategy import Division
from rebalance_model.entities import MessageQueue

_KEPT = 256


class SharedStrategy(AllocateStrategy):
    """A strategy that remembers: clients that see the same queues and members, the same objects, divide them once.

    So a thousand clients that rebalance every 20 s pay for a division only when something has changed.
    """

    java_class = ""

    def __init__(self, strategy: AllocateStrategy) -> None:
        self._strategy = strategy
        self.java_class = strategy.java_class  # type: ignore[misc]  # of each instance its own
        self._divisions: dict[tuple[str, int, int], tuple[Division, object, object]] = {}

    @property
    def name(self) -> str:
        """That of the strategy."""
        return self._strategy.name

    def division(self, group: str, mq_all: Sequence[MessageQueue] | None, cid_all: Sequence[str] | None) -> Division:
        """The division; what it is known by is kept with it, so that no other object can have its identity."""
        key = group, id(mq_all), id(cid_all)
        known = self._divisions.get(key)
        if known is None:
            if len(self._divisions) >= _KEPT:
                self._divisions.clear()
            known = self._divisions[key] = self._strategy.division(group, mq_all, cid_all), mq_all, cid_all
        return known[0]
