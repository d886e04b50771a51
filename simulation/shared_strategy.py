"""Compute a division once for all clients that need it."""

from collections.abc import Sequence

from rebalance_model.allocation import AllocateStrategy
from rebalance_model.allocation.strategy import Division
from rebalance_model.entities import MessageQueue

_KEPT = 256


class SharedStrategy(AllocateStrategy):
    """A strategy with a cache: clients with the same queue and member objects share one division.

    So a thousand clients that rebalance every 20 s pay for a division only when something has changed.
    """

    java_class = ""

    def __init__(self, strategy: AllocateStrategy) -> None:
        self._strategy = strategy
        self.java_class = strategy.java_class  # type: ignore[misc]  # of each instance its own
        self._divisions: dict[tuple[str, int, int], tuple[Division, object, object]] = {}

    @property
    def name(self) -> str:
        """Return the name of the wrapped strategy."""
        return self._strategy.name

    def division(self, group: str, mq_all: Sequence[MessageQueue] | None, cid_all: Sequence[str] | None) -> Division:
        """Return the division; the cache keeps its key objects alive, so no other object can take their identity."""
        key = group, id(mq_all), id(cid_all)
        cached = self._divisions.get(key)
        if cached is None:
            if len(self._divisions) >= _KEPT:
                self._divisions.clear()
            cached = self._divisions[key] = self._strategy.division(group, mq_all, cid_all), mq_all, cid_all
        return cached[0]
