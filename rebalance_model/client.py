"""A queue as its client processes it (ProcessQueue), and the defaults of a consumer.

A client knows its own process queues, an observer those of others, as they are answered; both decide by the methods
here. Limits are arguments, with Java's constants as defaults: a monitored client may be configured otherwise. What only
a client itself has, its messages and their counters, is in `cached_messages`.

It trusts a lock for 30 s after the broker granted it, half as long as the broker does:

>>> from rebalance_model.client import ProcessQueue
>>> held = ProcessQueue.created(now=0)
>>> held.is_lock_expired(now=30_000), held.is_lock_expired(now=30_001)
(False, True)

Every ``now`` is the client's clock in milliseconds. The rest of a client, which an observer sees only by its requests,
is in the simulation, `simulation.rocketmq.client`.
"""

from typing import Self

import msgspec

LOCK_INTERVAL = 20_000
"""rocketmq.client.rebalance.lockInterval: how often an ordered CLUSTERING consumer renews all its locks."""
WAIT_INTERVAL = 20_000
"""rocketmq.client.rebalance.waitInterval: how often a client rebalances without a notification."""
PULL_BATCH_SIZE = 32
"""pullBatchSize: the messages of one pull, at most."""
PULL_THRESHOLD_FOR_QUEUE = 1_000
"""pullThresholdForQueue: a client with this many cached messages of a queue stops pulling it."""
CONSUME_DELAY_MAX = 30_000
"""ConsumeMessageOrderlyService: the longest wait before a suspended ordered queue is consumed again."""


LOCK_MAX_LIVE_TIME = 30_000
"""rocketmq.client.rebalance.lockMaxLiveTime: after this (ms) without renewal the client no longer trusts its lock."""
PULL_MAX_IDLE_TIME = 120_000
"""rocketmq.client.pull.pullMaxIdleTime: a queue not pulled for longer (ms) is dropped and added again."""
UNLOCK_DELAY = 20_000
"""rocketmq.client.unlockDelayTimeMills: 5.x forces the unlock then; 4.9 unlocks then, if messages are cached."""

__all__ = ["ProcessQueue"]


class ProcessQueue(msgspec.Struct):
    """The stamps and flags of a process queue; None: unknown, as it may be to an observer.

    Times are milliseconds of one clock, usually the client's.
    """

    last_pull_timestamp: int | None
    last_consume_timestamp: int | None
    last_lock_timestamp: int | None
    locked: bool | None = False
    dropped: bool = False
    try_unlock_times: int | None = 0
    """The number of times that its removal had to wait for a running listener."""

    @classmethod
    def created(cls, now: int) -> Self:
        """Create a process queue whose three time stamps are `now`."""
        return cls(now, now, now)

    def is_lock_expired(self, now: int, limit: int = LOCK_MAX_LIVE_TIME) -> bool:
        """Return whether the lock is known to be older than the limit: the client no longer trusts it."""
        renewed = self.last_lock_timestamp
        return renewed is not None and now - renewed > limit

    def is_pull_expired(self, now: int, limit: int = PULL_MAX_IDLE_TIME) -> bool:
        """Return whether the last pull is known to be older than the limit: the next rebalance drops the queue."""
        pulled = self.last_pull_timestamp
        return pulled is not None and now - pulled > limit

    def trusts_lock(self, now: int, limit: int = LOCK_MAX_LIVE_TIME) -> bool:
        """Return whether it has a lock that has not expired: an ordered listener may run (ConsumeRequest.run)."""
        return bool(self.locked) and self.last_lock_timestamp is not None and not self.is_lock_expired(now, limit)

    def is_unlock_forced(self, now: int, limit: int = UNLOCK_DELAY) -> bool:
        """Return whether it is removed though its listener runs, since 5.2 (tryRemoveOrderMessageQueue)."""
        return self.dropped and self.is_lock_expired(now, limit)
