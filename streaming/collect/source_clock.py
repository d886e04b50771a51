"""The clock by which the collector stamps.

It is monotonic, and begins at the time of the host: so durations are right, and the order is that of the stamps,
whatever is done to the host's clock. Where that is set, as by NTP after a boot with a wrong time, or runs on while the
monotonic one stands still, as in a suspended machine, this clock is set, too, and the source reports the step.
"""

import time
from collections.abc import Callable

from streaming.base.times import now_ms

STEP_MS = 250
"""A difference between the two clocks that counts as a step; a smaller one is not followed. Both run at the same rate,
because NTP disciplines that of both."""
READ_MS_MAX = 25
"""The two clocks are compared only if they were read within this time."""


def monotonic_ms() -> int:
    """Return a clock that nobody sets; milliseconds since an unknown time."""
    return time.monotonic_ns() // 1_000_000


class SourceClock:
    """A monotonic clock that shows the host's time, and is set only by `follow`."""

    def __init__(self, wall: Callable[[], int] = now_ms, monotonic: Callable[[], int] = monotonic_ms) -> None:
        """Begin at the host's time.

        Args:
            wall: the host's clock; epoch milliseconds.
            monotonic: a clock that nobody sets; milliseconds.
        """
        self._wall = wall
        self._monotonic = monotonic
        self._zero = wall() - monotonic()
        self._set_by = 0
        self.steps = 0
        """How often it was set."""

    def now(self) -> int:
        """Return the time by which events are stamped; epoch milliseconds."""
        return self.time_of(self.steady())

    def steady(self) -> int:
        """Return the time as if it had never been set, for durations, and for `time_of` later; epoch milliseconds."""
        return self._zero + self._monotonic()

    def time_of(self, steady: int) -> int:
        """Return a time of `steady` by the clock as it is set now; epoch milliseconds."""
        return steady + self._set_by

    def follow(self) -> int:
        """Set this clock to the host's if that was set; return by how much, milliseconds, or 0."""
        before = self.now()
        wall = self._wall()
        after = self.now()
        step = wall - after
        if after - before > READ_MS_MAX or abs(step) < STEP_MS:
            return 0
        self._set_by += step
        self.steps += 1
        return step
