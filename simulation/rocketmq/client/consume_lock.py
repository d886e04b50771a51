"""Locks without threads: a caller waits in virtual time (ProcessQueue.consumeLock, MessageQueueLock)."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class ConsumeLock:
    """A lock for many readers or one writer; no method blocks.

    A listener runs under the read lock; removal of a queue needs the write lock. 4.9 has a plain mutex instead, to the
    same effect, because a queue never has more than one running listener.
    """

    readers: int = 0
    writing: bool = False
    waiting: list[Callable[[], None]] = field(default_factory=list)
    """Callbacks, each called once when the lock may be free; `Host.released` adds them."""

    def try_read(self) -> bool:
        """Take the read side if no writer holds the lock."""
        if self.writing:
            return False
        self.readers += 1
        return True

    def release_read(self) -> None:
        """Release one read side."""
        self.readers -= 1
        self._wake_waiting()

    def try_write(self) -> bool:
        """Take the write side if no reader or writer holds the lock."""
        if self.writing or self.readers:
            return False
        self.writing = True
        return True

    def release_write(self) -> None:
        """Release the write side."""
        self.writing = False
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        if self.waiting:
            waiting, self.waiting = self.waiting, []
            for wake in waiting:
                wake()
