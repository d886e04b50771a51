"""Look again and again until something holds, without taking the processor from what makes it hold."""

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.1, 3.0


def until(holds: Callable[[], _T], seconds: float, said: Callable[[], object] = lambda: "") -> _T:
    """Return what a look gives as soon as that is true.

    The pause after a look is four times as long: opening tables, or a request for all groups, takes half a second of
    processor time, and with a short pause the looks took more of it than the job that they waited for.

    Args:
        holds: the look.
        seconds: how long to wait at most.
        said: what explains why it does not hold.
    """
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if found := holds():
            return found
        now = time.monotonic()
        assert now < deadline, f"not within {seconds} s: {said()}"
        time.sleep(min(max(4 * (now - began), _PAUSE_SECONDS_MIN), _PAUSE_SECONDS_MAX))
