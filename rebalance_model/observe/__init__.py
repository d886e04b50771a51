"""Rebuild consumer groups from telemetry: events go in, rows about owners, rebalances and incidents come out.

An `Observer` takes the events of a log in log order, returns conclusions in time order, and answers questions. Here a
broker's hook has seen a client send a heartbeat, and lock a queue:

>>> from rebalance_model import MessageQueue, NotYetError
>>> from rebalance_model.observe import AssignmentChange, Observer, events
>>> hook = {"cluster": "c", "broker": "broker-a", "source": "hook", "source_id": "broker-a@1"}
>>> client = hook | {"group": "g", "client_id": "client-1", "channel": "10.0.0.1:5000"}
>>> queue = MessageQueue("Orders", "broker-a", 0)
>>> log = [
...     events.HeartBeat(
...         time=1_000, seq=1, consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING", subscriptions=(), **client
...     ),
...     events.LockBatchMq(time=2_000, seq=2, requested=(queue,), granted=(queue,), **client),
...     events.Tick(time=10_000, seq=1, end=True, **hook),
... ]
>>> observer = Observer()
>>> rows = [row for event in log for row in observer.feed(event)]
>>> for row in rows:
...     if isinstance(row, AssignmentChange):
...         print(row.time, row.topic, row.queue_id, row.client_id, row.action, row.evidence)
2000 Orders 0 client-1 ASSIGNED LOCK_GRANTED
>>> observer.members("c", "g"), observer.owner("c", "g", queue), observer.incidents("c", "g")
(('client-1',), 'client-1', ())
>>> [step.evidence for step in observer.explain("c", "g", queue).steps]
['LOCK_GRANTED']
>>> Observer.load(observer.save()).owner("c", "g", queue)
'client-1'

Events wait until every source has reported. A question about a group whose events all wait is answered later:

>>> observer = Observer()
>>> observer.feed(log[0])
[]
>>> try:
...     observer.members("c", "g")
... except NotYetError as error:
...     print("ask again at", error.known_at)
ask again at 31000

A `Shard` is the same without answers, and with the groups in a store of the program that reads the log.
Times are epoch milliseconds. `decode` makes a valid event of a row of a recording, or raises `RejectedError`.
`TABLE_OF` names the table of each kind of row. A `Policy` has every threshold.
"""

from importlib import import_module
from typing import TYPE_CHECKING

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
from rebalance_model.observe.events.decoding import RejectedError, decode
from rebalance_model.observe.group_store import GroupsInMemory, GroupStore
from rebalance_model.observe.policy import Policy

if TYPE_CHECKING:
    from rebalance_model.observe.engine.salvage import Saved
    from rebalance_model.observe.engine.shard import Shard
    from rebalance_model.observe.observer import Explanation, Observer, OpenIncident
    from rebalance_model.observe.state import StateVersionError
else:
    _HOMES = {
        "Explanation": "observer",
        "Observer": "observer",
        "OpenIncident": "observer",
        "Saved": "engine.salvage",
        "Shard": "engine.shard",
        "StateVersionError": "state",
    }

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
    "Explanation",
    "GroupSnapshot",
    "GroupStore",
    "GroupsInMemory",
    "IncidentTransition",
    "Observer",
    "OpenIncident",
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
