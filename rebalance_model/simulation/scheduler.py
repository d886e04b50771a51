"""The one clock of a simulated cluster, and what is to happen when.

Times are microseconds of true time; every machine's own clock is a millisecond reading of it, with an offset. Finer
than a millisecond, so that things that happen in one millisecond have an order that does not depend on how they were
put in.
"""

import heapq
from collections.abc import Callable

Call = Callable[[], object]
"""What it returns is nobody's business."""
MS = 1_000
SECOND = 1_000_000


class Scheduler:
    """Runs calls in the order of their times; of equal times, in the order in which they were put in."""

    def __init__(self, now: int) -> None:
        self.now = now
        self._since = now
        """When what runs now was put in."""
        self._due: list[tuple[int, int, int, Call]] = []
        self._count = 0

    def at(self, time: int, call: Call) -> None:
        """Run a call at a time; one that has passed counts as now."""
        self.put(time if time > self.now else self.now, self.now, call)

    def after(self, delay: int, call: Call) -> None:
        """Run a call after a delay."""
        self._count += 1
        heapq.heappush(self._due, (self.now + delay, self.now, self._count, call))

    def put(self, time: int, since: int, call: Call) -> None:
        """Run a call at a time, as if it had been put in at an earlier one: what was computed meanwhile goes on."""
        self._count += 1
        heapq.heappush(self._due, (time, since, self._count, call))

    def run_until(self, end: int) -> None:
        """Let time pass."""
        self._run((end + 1,))
        self.now = self._since = end

    def has_run(self, time: int, since: int) -> bool:
        """Whether a call that was put in for a time had its turn before what runs now."""
        return (time, since) < (self.now, self._since)

    def alone(self, time: int, since: int, call: Call) -> None:
        """Make up for what a part did by itself since a time that has passed.

        The call, and what it leads to up to now, runs with the clock set back; what is still to come then is put in
        with the rest. Only for what nobody else could have noticed.
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
    """The clock of one machine: milliseconds, as wrong as it is set."""

    def __init__(self, scheduler: Scheduler, offset: int = 0) -> None:
        self._scheduler = scheduler
        self.offset = offset * MS

    def now(self) -> int:
        """What the machine believes; epoch milliseconds."""
        return self.at(self._scheduler.now)

    def at(self, time: int) -> int:
        """What it shows at a true time."""
        return (time + self.offset) // MS

    def true_time(self, stamp: int) -> int:
        """When this clock shows a stamp first; microseconds of true time."""
        return stamp * MS - self.offset
