"""The locks of ordered queues on one broker (org.apache.rocketmq.broker.client.rebalance.RebalanceLockManager).

A lock is in memory only: a broker that restarts has none. It is never purged: an expired one stays until another
client takes it or its owner unlocks it, and its owner may renew it as long as no other client has taken it.
"""

from collections.abc import Iterable

import msgspec

from rebalance_model.entities import MessageQueue

LOCK_MAX_LIVE_TIME = 60_000
"""System property rocketmq.broker.rebalance.lockMaxLiveTime; milliseconds."""


class LockEntry(msgspec.Struct, array_like=True):
    """The client that holds a queue, and when the lock was last renewed (epoch milliseconds, broker's clock)."""

    client_id: str
    last_update_timestamp: int

    def is_expired(self, now: int, limit: int = LOCK_MAX_LIVE_TIME) -> bool:
        """Return whether the lock is older than the limit: the next client that requests it gets it (isExpired)."""
        return now - self.last_update_timestamp > limit


class RebalanceLockManager(msgspec.Struct):
    """Queue locks, separate for each group. `now` is the broker's clock in milliseconds."""

    lock_max_live_time: int = LOCK_MAX_LIVE_TIME
    mq_lock_table: dict[str, dict[MessageQueue, LockEntry]] = {}

    def try_lock(self, group: str, mq: MessageQueue, client_id: str, now: int) -> bool:
        """Lock a queue that is free, expired or held by the client itself; the last case renews its lock (tryLock)."""
        entries = self.mq_lock_table.setdefault(group, {})
        entry = entries.get(mq)
        if entry is not None and entry.client_id != client_id and not entry.is_expired(now, self.lock_max_live_time):
            return False
        entries[mq] = LockEntry(client_id, now)
        return True

    def try_lock_batch(
        self, group: str, mqs: Iterable[MessageQueue], client_id: str, now: int
    ) -> tuple[MessageQueue, ...]:
        """Lock queues; return those that the client then holds (tryLockBatch), without repeats, in the given order."""
        return tuple(mq for mq in dict.fromkeys(mqs) if self.try_lock(group, mq, client_id, now))

    def unlock_batch(self, group: str, mqs: Iterable[MessageQueue], client_id: str) -> None:
        """Unlock those of the queues that the client holds, expired or not (unlockBatch)."""
        entries = self.mq_lock_table.get(group, {})
        for mq in mqs:
            if (entry := entries.get(mq)) is not None and entry.client_id == client_id:
                del entries[mq]

    def is_lock_all_expired(self, group: str, now: int) -> bool:
        """Return whether the group has no valid lock (isLockAllExpired).

        While it has one, a message that a member sends back goes straight to the dead-letter topic: ordered and
        concurrent members in one group lose retries that way (5.x).
        """
        return all(
            entry.is_expired(now, self.lock_max_live_time) for entry in self.mq_lock_table.get(group, {}).values()
        )
