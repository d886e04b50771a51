"""Model Apache RocketMQ's consumer rebalance, and observe real consumer groups with that model.

- `allocation`: the strategies that divide a topic's queues among the clients of a group.
- `broker` and `client`: both sides of rebalance, method by method as in RocketMQ.
- `dialect`: what the releases 4.9 and 5.x do differently.
- `ModelError`: the base of every error that the model raises on purpose; its type says whose fault it is.
- `observe`: takes telemetry, and returns who owned each queue, why it moved, and what is wrong.

The docstring of each package has an example, which a test runs.

Pure: no clock, IO, environment or randomness. Time comes in the event, so the same input gives the same
output, wherever a micro-batch is cut.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from rebalance_model.entities import MessageQueue
from rebalance_model.errors import ModelError, NotYetError, UnknownSubjectError, UsageError

if TYPE_CHECKING:
    from rebalance_model import allocation, broker, client, dialect, observe
else:

    def __getattr__(name: str) -> object:
        """Import a package when it is first used: a collector needs no observer."""
        if name in __all__:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "MessageQueue",
    "ModelError",
    "NotYetError",
    "UnknownSubjectError",
    "UsageError",
    "allocation",
    "broker",
    "client",
    "dialect",
    "observe",
]
