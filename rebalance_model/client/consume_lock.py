"""Locks without threads: who waits does so in virtual time (ProcessQueue.consumeLock, MessageQueueLock)."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class ConsumeLock:
    """Any number of readers or one writer, and never a wait in here.

    A listener runs under the read side; who takes a queue away wants the write side. 4.9 has a plain mutex instead:
    the same, because one queue has never more than one listener running.
    """

    readers: int = 0
    writing: bool = False
    waiting: list[Callable[[], None]] = field(default_factory=list)
    """Whom to tell, once, that it may be free: put in by whoever implements `Host.released`."""

    def try_read(self) -> bool:
        """Take the read side if no writer holds the lock."""
        if self.writing:
            return False
        self.readers += 1
        return True

    def release_read(self) -> None:
        """Give one read side back."""
        self.readers -= 1
        self._tell()

    def try_write(self) -> bool:
        """Take the write side if nobody holds the lock."""
        if self.writing or self.readers:
            return False
        self.writing = True
        return True

    def release_write(self) -> None:
        """Give the write side back."""
        self.writing = False
        self._tell()

    def _tell(self) -> None:
        if self.waiting:
            waiting, self.waiting = self.waiting, []
            for tell in waiting:
                tell()
