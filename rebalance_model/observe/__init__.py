"""Rebuild consumer groups from telemetry: events go in, rows about owners, rebalances and incidents come out.

A `Shard` takes the events of a log in log order, and returns conclusions in time order. Here a broker's hook has seen a
client send a heartbeat, lock a queue and unlock it:

>>> from rebalance_model import MessageQueue
>>> from rebalance_model.observe import AssignmentChange, GroupsInMemory, Policy, Shard, events
>>> hook = {"cluster": "c", "broker": "broker-a", "source": "hook", "source_id": "broker-a@1"}
>>> client = hook | {"group": "g", "client_id": "client-1", "channel": "10.0.0.1:5000"}
>>> queues = (MessageQueue("Orders", "broker-a", 0),)
>>> log = [
...     events.HeartBeat(
...         time=1_000, seq=1, consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING", subscriptions=(), **client
...     ),
...     events.LockBatchMq(time=2_000, seq=2, requested=queues, granted=queues, **client),
...     events.UnlockBatchMq(time=9_000, seq=3, queues=queues, **client),
...     events.Tick(time=10_000, seq=1, end=True, **hook),
... ]
>>> shard = Shard(None, GroupsInMemory(), Policy())
>>> rows = [row for event in log for row in shard.push(event, stamp=event.time)] + shard.finish()
>>> for row in rows:
...     if isinstance(row, AssignmentChange):
...         print(row.time, row.topic, row.queue_id, row.client_id, row.action, row.evidence)
2000 Orders 0 client-1 ASSIGNED LOCK_GRANTED
9000 Orders 0 client-1 RELEASED UNLOCKED

Times are epoch milliseconds. `decode` makes a valid event of a row of a recording, or raises `RejectedError`.
`TABLE_OF` names the table of each kind of row. A `Policy` has every threshold.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from rebalance_model.observe.decoding import RejectedError, decode
from rebalance_model.observe.effects import (
    TABLE_OF,
    AnyRow,
    AssignmentChange,
    GroupSnapshot,
    IncidentTransition,
    QueueProgress,
    QueueSnapshot,
    RebalanceSettled,
)
from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.group_store import GroupsInMemory, GroupStore
from rebalance_model.observe.policy import Policy

if TYPE_CHECKING:
    from rebalance_model.observe.engine.shard import Saved, Shard
    from rebalance_model.observe.state import StateVersionError
else:
    _HOMES = {"Saved": "engine.shard", "Shard": "engine.shard", "StateVersionError": "state"}

    def __getattr__(name: str) -> object:
        """Import the observer when it is first used: collectors and readers need events alone, a tenth of its time."""
        if name in _HOMES:
            return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "TABLE_OF",
    "AnyEvent",
    "AnyRow",
    "AssignmentChange",
    "GroupSnapshot",
    "GroupStore",
    "GroupsInMemory",
    "IncidentTransition",
    "Policy",
    "QueueProgress",
    "QueueSnapshot",
    "RebalanceSettled",
    "RejectedError",
    "Saved",
    "Shard",
    "StateVersionError",
    "decode",
]
