"""The clock and the event queue of a simulated cluster.

Times are microseconds of true time; every machine's own clock is a millisecond reading of it, with an offset. Times are
finer than a millisecond so that events in one millisecond have an order that does not depend on the order in which they
were scheduled.
"""

import heapq
from collections.abc import Callable

Call = Callable[[], object]
"""A call; its result is ignored."""
MS = 1_000
SECOND = 1_000_000


class Scheduler:
    """Runs calls in the order of their times; calls of equal times in the order in which they were scheduled."""

    def __init__(self, now: int) -> None:
        self.now = now
        self._since = now
        """When the call that runs now was scheduled."""
        self._due: list[tuple[int, int, int, Call]] = []
        self._count = 0

    def at(self, time: int, call: Call) -> None:
        """Run a call at a time; a time in the past counts as now."""
        self.put(time if time > self.now else self.now, self.now, call)

    def after(self, delay: int, call: Call) -> None:
        """Run a call after a delay."""
        self._count += 1
        heapq.heappush(self._due, (self.now + delay, self.now, self._count, call))

    def put(self, time: int, since: int, call: Call) -> None:
        """Run a call at a time, ordered as if it had been scheduled at the earlier time `since`."""
        self._count += 1
        heapq.heappush(self._due, (time, since, self._count, call))

    def run_until(self, end: int) -> None:
        """Advance the time to `end`, and run the calls up to then."""
        self._run((end + 1,))
        self.now = self._since = end

    def has_run(self, time: int, since: int) -> bool:
        """Return whether a call scheduled at `since` for `time` would have run before the current call."""
        return (time, since) < (self.now, self._since)

    def alone(self, time: int, since: int, call: Call) -> None:
        """Run a call in the past, for a part whose events were computed instead of scheduled.

        The call, and the calls that it causes up to now, run with the clock set back; later ones are scheduled with the
        rest. Only valid if no other part could have observed the difference.
        """
        now, others = (self.now, self._since), self._due
        self._due = []
        self.put(time, since, call)
        self._run(now)
        self.now, self._since = now
        left, self._due = self._due, others
        for entry in left:
            heapq.heappush(others, entry)

    def _run(self, end: tuple[int, ...]) -> None:
        due, pop = self._due, heapq.heappop
        while due and due[0] < end:
            self.now, self._since, _, call = pop(due)
            call()


class Clock:
    """The clock of one machine: milliseconds, with an offset from true time."""

    def __init__(self, scheduler: Scheduler, offset: int = 0) -> None:
        self._scheduler = scheduler
        self.offset = offset * MS

    def set(self, by: int) -> None:
        """Set the clock ahead, or back if negative; milliseconds."""
        self.offset += by * MS

    def now(self) -> int:
        """Return the machine's time; epoch milliseconds."""
        return self.at(self._scheduler.now)

    def at(self, time: int) -> int:
        """Return the machine's time (epoch milliseconds) at a true time (microseconds)."""
        return (time + self.offset) // MS

    def true_time(self, stamp: int) -> int:
        """Return the first true time (microseconds) at which this clock shows `stamp`."""
        return stamp * MS - self.offset
