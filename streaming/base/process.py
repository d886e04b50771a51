"""The process itself: files that it may have open, memory that it gives back, and the pace of such work.

A process that reads tables needs hundreds of megabytes for moments. glibc's malloc and Arrow's pool keep what was freed
for the next time, each thread its own: a process then has for months what its largest batch or answer needed.
"""

import ctypes
import gc
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

from streaming.base.limits import OPEN_FILES, OWN_FILES

OPEN_FILES_MIN = 4_096
"""Files below which a dashboard has fewer connections than its limit, and a shipper fewer spools."""


def open_files() -> int:
    """Return how many files this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_open_files() -> None:
    """Let this process, and those that it starts, have as many files open as the system allows, up to `OPEN_FILES`.

    systemd and shells give 1,024, because `select` knows no more, and let those raise it that do not use that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def files_for_connections() -> int:
    """Return how many connections this process may have, so that it can open the files of its own work."""
    allowed = open_files()
    if allowed == resource.RLIM_INFINITY:
        return OPEN_FILES
    return allowed - min(OWN_FILES, allowed // 2)


GIVE_BACK_SECONDS = 60.0
"""The interval at which a process that runs for long gives memory back: it takes up to half a second."""
_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
_MALLOPT = getattr(ctypes.CDLL(None), "mallopt", None)
"""Functions of glibc; None: this is another C library."""
_MALLOC = {
    "MALLOC_ARENA_MAX": (-8, 2),
    "MALLOC_TRIM_THRESHOLD_": (-1, 16_000_000),
    "MALLOC_MMAP_THRESHOLD_": (-3, 4_000_000),
}
"""Options of glibc's malloc by their names in the environment: the number for ``mallopt``, and the value."""


def keep_little() -> None:
    """Let this process, and those that it starts, keep less of the memory that they free; call it before Arrow is used.

    By default each thread allocates from an arena of its own, and glibc keeps blocks of a size that was freed once.
    Arrow's own allocator keeps what it had, so Arrow uses glibc's. What the environment sets is left as it is.
    """
    for name, (number, value) in _MALLOC.items():
        if _MALLOPT is not None and name not in os.environ:
            _MALLOPT(number, value)
            os.environ[name] = str(value)
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def give_back() -> None:
    """Collect cyclic garbage, then return free memory of Python's, Arrow's and the C library's to the system."""
    import pyarrow as pa

    gc.collect()
    pa.default_memory_pool().release_unused()
    if _TRIM is not None:
        _TRIM(0)


@contextmanager
def without_collection() -> Iterator[None]:
    """Collect no cyclic garbage meanwhile: where objects live on or are freed at once, a search finds nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


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
