"""Divide queues among clients by RocketMQ's strategies (org.apache.rocketmq.client.consumer.rebalance).

`AllocateStrategy.allocate` is one client's own computation, `AllocateStrategy.plan` that of every client at once:

>>> from rebalance_model import MessageQueue
>>> from rebalance_model.allocation import strategy
>>> queues = [MessageQueue("Orders", "broker-a", queue_id) for queue_id in range(5)]
>>> averagely = strategy("AVG")
>>> [queue.queue_id for queue in averagely.allocate("g", "client-1", queues, ["client-1", "client-2"])]
[0, 1, 2]
>>> for client_id, share in averagely.plan("g", queues, ["client-1", "client-2", "client-3"]).items():
...     print(client_id, [queue.queue_id for queue in share])
client-1 [0, 1]
client-2 [2, 3]
client-3 [4]

`server_side` is the broker's computation for clients that request it (QUERY_ASSIGNMENT).
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import cache
from inspect import signature
from typing import TypedDict, Unpack

from rebalance_model.allocation.strategies import (
    NEARBY_PREFIX,
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ByMachineRoom,
    ConsistentHash,
    HashFunction,
    MachineRoomNearby,
    MachineRoomResolver,
)
from rebalance_model.allocation.strategy import AllocateStrategy, AllocationError, AllocationNullError
from rebalance_model.entities import MessageQueue

__all__ = [
    "AllocateStrategy",
    "AllocationError",
    "AllocationNullError",
    "HashFunction",
    "MachineRoomResolver",
    "name_of_class",
    "strategy",
    "strategy_of_class",
    "takes_parameters",
]

_STRATEGIES: dict[str, type[AllocateStrategy]] = {
    "AVG": Averagely,
    "AVG_BY_CIRCLE": AveragelyByCircle,
    "CONFIG": ByConfig,
    "CONSISTENT_HASH": ConsistentHash,
    "MACHINE_ROOM": ByMachineRoom,
    "MACHINE_ROOM_NEARBY": MachineRoomNearby,
}
_NEEDS_NONE: tuple[type[AllocateStrategy], ...] = (Averagely, AveragelyByCircle, ConsistentHash)


class Parameters(TypedDict, total=False):
    """Java's constructor arguments and setters, of all strategies together."""

    virtual_node_cnt: int
    custom_hash_function: HashFunction | None
    message_queue_list: list[MessageQueue] | None
    consumeridcs: AbstractSet[str] | None
    inner: AllocateStrategy | None
    resolver: MachineRoomResolver | None


# Values that Java's compiler rejects; without this check a plain string for `consumeridcs` would be accepted.
_FITS: dict[str, Callable[[object], bool]] = {
    "virtual_node_cnt": lambda value: isinstance(value, int),
    "custom_hash_function": lambda value: value is None or callable(value),
    "message_queue_list": lambda value: isinstance(value, list | None),
    "consumeridcs": lambda value: isinstance(value, AbstractSet | None),
    "inner": lambda value: isinstance(value, AllocateStrategy | None),
    "resolver": lambda value: isinstance(value, MachineRoomResolver | None),
}


def strategy(name: str, **params: Unpack[Parameters]) -> AllocateStrategy:
    """Return the strategy with that name (AllocateMessageQueueStrategy.getName).

    ``MACHINE_ROOM_NEARBY-AVG`` is ``MACHINE_ROOM_NEARBY`` with ``inner=strategy("AVG")``: parameters other than
    ``resolver`` go to the inner one.

    Raises:
        AllocationError: no strategy has that name, or it has no such parameter, or Java refuses the value.
        AllocationNullError: the parameter that is missing makes Java throw NullPointerException.
    """
    if name.startswith(NEARBY_PREFIX):
        resolver = params.pop("resolver", None)
        return strategy(
            "MACHINE_ROOM_NEARBY", inner=strategy(name.removeprefix(NEARBY_PREFIX), **params), resolver=resolver
        )
    kind = _STRATEGIES.get(name)
    if kind is None:
        msg = f"no allocation strategy is called {name!r}: {', '.join(_STRATEGIES)}"
        raise AllocationError(msg)
    accepted = _parameters(kind)
    for param, value in params.items():
        if param not in accepted:
            msg = f"{name} has no parameter {param!r}: {', '.join(accepted) or 'it takes none'}"
            raise AllocationError(msg)
        if not _FITS[param](value):
            msg = f"{param} can't be {value!r}"
            raise AllocationError(msg)
    return kind(**params)  # type: ignore[misc]  # its parameters were read from its signature


@cache
def _parameters(kind: type[AllocateStrategy]) -> tuple[str, ...]:
    return tuple(signature(kind).parameters)


def strategy_of_class(class_name: str) -> AllocateStrategy | None:
    """Return the strategy of a Java class that a client declares, with Java's defaults (GET_CONSUMER_RUNNING_INFO).

    None if the class is unknown, or needs parameters, which the client does not declare. A strategy that accepts some
    (`takes_parameters`) may have been created with others than the defaults.
    """
    return next((kind() for kind in _NEEDS_NONE if kind.java_class == class_name), None)


def name_of_class(class_name: str) -> str | None:
    """Return the name of the strategy of a Java class; None if RocketMQ has no such strategy."""
    return next((name for name, kind in _STRATEGIES.items() if kind.java_class == class_name), None)


def takes_parameters(chosen: AllocateStrategy) -> bool:
    """Return whether the strategy takes parameters: then its class alone does not determine the division."""
    return bool(_parameters(type(chosen)))
