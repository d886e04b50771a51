"""The time of a script that drives real classes: it passes only when the script says so."""

from collections.abc import Callable

import jpype


def now() -> int:
    """Return Java's time; epoch milliseconds."""
    return int(jpype.JClass("java.lang.System").currentTimeMillis())


class StandingClock:
    """Takes back what the real clock advances, which can't be stopped: a busy machine takes seconds for a script."""

    def __init__(self, make_older: Callable[[int], None]) -> None:
        """Begin now.

        Args:
            make_older: subtracts milliseconds from every timestamp of the real objects.
        """
        self._make_older = make_older
        self._at = now()

    def stand_still(self) -> None:
        """Move every timestamp forward by the time since the last call."""
        passed = now() - self._at
        self._make_older(-passed)
        self._at += passed
