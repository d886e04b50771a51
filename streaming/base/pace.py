"""The pace of what a loop does less often than it turns."""

import time


class Pace:
    """Says that something is due, at most once in so many seconds."""

    def __init__(self, seconds: float, *, first: float = 0.0) -> None:
        """``first``: seconds from now on."""
        self._seconds = seconds
        self._at = time.monotonic() + first

    def is_due(self) -> bool:
        """Return whether the time has come; if so, the next one is counted from now on."""
        now = time.monotonic()
        if now < self._at:
            return False
        self._at = now + self._seconds
        return True
