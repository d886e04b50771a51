"""RocketMQ's strategies that divide queues among clients (org.apache.rocketmq.client.consumer.rebalance).

Inputs are assumed sorted, as RebalanceImpl.rebalanceByTopic sorts them; no strategy sorts or removes duplicates.
"""

from rebalance_model.allocation.averagely import Averagely
from rebalance_model.allocation.averagely_by_circle import AveragelyByCircle
from rebalance_model.allocation.strategy import AllocateStrategy, AllocationError, plan

__all__ = ["AllocateStrategy", "AllocationError", "plan", "strategy", "strategy_of_class"]

_STRATEGIES: dict[str, type[AllocateStrategy]] = {"AVG": Averagely, "AVG_BY_CIRCLE": AveragelyByCircle}


def strategy(name: str) -> AllocateStrategy:
    """The strategy of that name (AllocateMessageQueueStrategy.getName).

    Raises:
        AllocationError: no strategy has that name.
    """
    found = _STRATEGIES.get(name)
    if found is None:
        msg = f"no allocation strategy is called {name!r}: {', '.join(_STRATEGIES)}"
        raise AllocationError(msg)
    return found()


def strategy_of_class(class_name: str) -> AllocateStrategy | None:
    """The strategy that a client declares by its Java class (GET_CONSUMER_RUNNING_INFO), None where it is not known."""
    return next((kind() for kind in _STRATEGIES.values() if kind.java_class == class_name), None)
