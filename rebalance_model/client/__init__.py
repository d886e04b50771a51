"""Model a client's hold of a queue: what it decides by its stamps.

It trusts a lock for 30 s after the broker granted it, half as long as the broker does:

>>> from rebalance_model.client import ProcessQueue
>>> held = ProcessQueue.created(now=0)
>>> held.is_lock_expired(now=30_000), held.is_lock_expired(now=30_001)
(False, True)

Every ``now`` is the client's clock in milliseconds. The rest of a client, which an observer sees only by its requests,
is in the simulation, `simulation.rocketmq.client`.
"""

from rebalance_model.client.process_queue import ProcessQueue

__all__ = ["ProcessQueue"]
