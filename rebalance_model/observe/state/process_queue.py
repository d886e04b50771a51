"""A client's process queue as its own answers show it (ProcessQueue, ProcessQueueInfo).

An age is the difference of two stamps of one clock. An answer does not include the client's present time, so there are
two lower bounds, and the larger one counts: against the newest stamp in the same answer (both by the client's clock),
and against the first answer that carried this very stamp (both by the collector's clock). The second bound is
necessary: if all queues of a client are pulled together, the newest stamp is the pull itself, and the first bound
stays at 0.
"""

from rebalance_model.client.process_queue import LOCK_MAX_LIVE_TIME, PULL_MAX_IDLE_TIME, ProcessQueue


class ProcessQueueView(ProcessQueue, array_like=True, kw_only=True):
    """What the last answer showed of one process queue; None: it can't be read, or was not sent.

    Its stamps are by the client's clock, all other times by the collector's.
    """

    commit_offset: int | None = None
    cached_count: int | None = None
    transaction_count: int | None = None
    claimed_since: int = 0
    """When the first of the consecutive answers was requested that hold the queue in this way, or dropped."""
    first_unlock_attempts: int = 0
    """The number of unlock attempts in the first answer that showed any."""
    first_offset: int | None = None
    """The lowest offset of the messages that it has cached or in its listener; None: it has none, or unknown."""
    lock_seen: int = 0
    """When the first answer came that carried the stamp of its lock."""
    pull_seen: int = 0
    consume_seen: int = 0

    def is_lock_expired(self, now: int, limit: int = LOCK_MAX_LIVE_TIME, asked: int = 0) -> bool:
        """Return whether the lock is known to be older than the limit, by either clock.

        Args:
            now: the newest stamp of the client's last answer.
            limit: milliseconds.
            asked: when that answer was requested.
        """
        return super().is_lock_expired(now, limit) or (
            self.last_lock_timestamp is not None and asked - self.lock_seen > limit
        )

    def is_pull_expired(self, now: int, limit: int = PULL_MAX_IDLE_TIME, asked: int = 0) -> bool:
        """Return whether the last pull is known to be older than the limit, by either clock; see `is_lock_expired`."""
        return super().is_pull_expired(now, limit) or (
            self.last_pull_timestamp is not None and asked - self.pull_seen > limit
        )

    def newest(self, *, orderly: bool) -> int | None:
        """Return when it was last locked (ordered) or pulled, by the client's clock; epoch milliseconds."""
        locked, pulled = self.last_lock_timestamp, self.last_pull_timestamp
        if locked is None or not (orderly and self.locked):
            return pulled
        return locked if pulled is None else max(locked, pulled)
