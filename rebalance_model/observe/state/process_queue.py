"""A client's process queue as its own answers show it (ProcessQueue, ProcessQueueInfo).

An age is the difference of two stamps of one clock. An answer does not include the client's present time, so there are
two lower bounds, and the larger one counts: against the newest stamp in the same answer (both by the client's clock),
and against the first answer that carried this very stamp (both by the collector's clock). The second bound is
necessary: if all queues of a client are pulled together, the newest stamp is the pull itself, and the first bound
stays at 0.
"""

import msgspec


class Stamp(msgspec.Struct, array_like=True, frozen=True):
    """A client's time stamp, and when an answer first carried it."""

    value: int
    """By the client's clock."""
    seen: int
    """When the first answer that carried the value came, by the collector's clock."""

    def age(self, client_now: int, asked: int) -> int:
        """Return the minimum age of the stamp (ms) when the request ``asked`` (collector's clock) was answered."""
        return max(client_now - self.value, asked - self.seen, 0)


class ProcessQueueView(msgspec.Struct, array_like=True):
    """What the last answer showed of one process queue; None: it can't be read, or was not sent."""

    commit_offset: int | None
    cached_count: int | None
    transaction_count: int | None
    locked: bool | None
    dropped: bool
    unlock_attempts: int | None
    lock: Stamp | None
    pull: Stamp | None
    consume: Stamp | None
    claimed_since: int
    """When the first of the consecutive answers was requested that hold the queue in this way, or dropped; by the
    collector's clock."""
    first_unlock_attempts: int = 0
    """The number of unlock attempts in the first answer that showed any."""
    first_offset: int | None = None
    """The lowest offset of the messages that it has cached or in its listener; None: it has none, or unknown."""

    def newest(self, *, orderly: bool) -> int | None:
        """Return when it was last locked (ordered) or pulled, by the client's clock; epoch milliseconds."""
        stamps = (self.lock, self.pull) if orderly and self.locked else (self.pull,)
        return max((stamp.value for stamp in stamps if stamp is not None), default=None)
