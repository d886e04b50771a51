"""The messages of one queue with their arrival times, computed instead of stored."""

from bisect import bisect_right
from typing import Protocol


class MessageLog(Protocol):
    """A queue's messages; times are microseconds of true time."""

    def max_offset(self, now: int) -> int:
        """Return the offset after the newest message at a time."""

    def arrival(self, offset: int) -> int | None:
        """Return when a message arrived or will arrive; None if it will not, as far as is known."""

    def stop(self, now: int) -> None:
        """Stop writing to the queue: no message arrives after this."""


class SteadyLog:
    """Messages at a fixed period, as of a producer that sends to its queues in turn."""

    def __init__(self, first: int, period: int | None) -> None:
        self._first = first
        self.period = period
        self._end: int | None = None

    def stop(self, now: int) -> None:
        """Stop writing to the queue: no message arrives after this."""
        self._end = self.max_offset(now)

    def max_offset(self, now: int) -> int:
        """Return the offset after the newest message at a time."""
        if self.period is None or now < self._first:
            return 0
        arrived = (now - self._first) // self.period + 1
        return arrived if self._end is None else min(arrived, self._end)

    def arrival(self, offset: int) -> int | None:
        """Return when a message arrived or will arrive; None if it will not."""
        if self.period is None or (self._end is not None and offset >= self._end):
            return None
        return self._first + offset * self.period


class SentBackLog:
    """Messages that were sent back, each available when its delay is over; a dead letter has none."""

    def __init__(self) -> None:
        self._arrivals: list[int] = []

    def append(self, time: int) -> None:
        """Add a message that becomes available at a time."""
        self._arrivals.insert(bisect_right(self._arrivals, time), time)

    def max_offset(self, now: int) -> int:
        """Return the offset after the newest message at a time."""
        return bisect_right(self._arrivals, now)

    def arrival(self, offset: int) -> int | None:
        """Return when a message arrived or will arrive; None if it is not known."""
        return self._arrivals[offset] if offset < len(self._arrivals) else None

    def stop(self, now: int) -> None:
        """Remove the messages that have not arrived."""
        del self._arrivals[self.max_offset(now) :]
