"""Check that a call takes time in proportion to the size of its input, on a machine of any speed."""

import time
from collections.abc import Callable

_TIMES = 4
"""By how much the larger input is larger: at quadratic cost it takes 16 times as long, at linear cost 4 times."""
_RATIO_MAX = 10


def takes_proportional_time(call: Callable[[int], object], size: int) -> bool:
    """Return whether a call with ``size`` takes at most 10 times as long as with a quarter of it; best of three."""
    small, large = (min(_seconds(call, of) for _ in range(3)) for of in (size // _TIMES, size))
    return large < _RATIO_MAX * max(small, 0.001)


def _seconds(call: Callable[[int], object], size: int) -> float:
    began = time.process_time()
    call(size)
    return time.process_time() - began
