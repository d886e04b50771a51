"""The messages of one queue: when each arrived, without an event for any of them."""

from bisect import bisect_right
from typing import Protocol


class MessageLog(Protocol):
    """A queue's messages; times are microseconds of true time."""

    def max_offset(self, now: int) -> int:
        """One past the newest message."""

    def arrival(self, offset: int) -> int | None:
        """When a message arrived or will arrive; None: not as things are."""

    def stop(self, now: int) -> None:
        """No message after this: the queue is no longer written to."""


class SteadyLog:
    """A message every so often, as a producer in turn over its queues makes them."""

    def __init__(self, first: int, period: int | None) -> None:
        self._first = first
        self.period = period
        self._end: int | None = None

    def stop(self, now: int) -> None:
        """No message after this: the queue is no longer written to."""
        self._end = self.max_offset(now)

    def max_offset(self, now: int) -> int:
        """One past the newest message."""
        if self.period is None or now < self._first:
            return 0
        arrived = (now - self._first) // self.period + 1
        return arrived if self._end is None else min(arrived, self._end)

    def arrival(self, offset: int) -> int | None:
        """When a message arrived or will arrive."""
        if self.period is None or (self._end is not None and offset >= self._end):
            return None
        return self._first + offset * self.period


class RetryLog:
    """What was sent back, each message when its delay is over."""

    def __init__(self) -> None:
        self._arrivals: list[int] = []

    def append(self, time: int) -> None:
        """A message will be there at a time."""
        self._arrivals.insert(bisect_right(self._arrivals, time), time)

    def max_offset(self, now: int) -> int:
        """One past the newest message."""
        return bisect_right(self._arrivals, now)

    def arrival(self, offset: int) -> int | None:
        """When a message arrived or will arrive."""
        return self._arrivals[offset] if offset < len(self._arrivals) else None

    def stop(self, now: int) -> None:
        """No message after this."""
        del self._arrivals[self.max_offset(now) :]
