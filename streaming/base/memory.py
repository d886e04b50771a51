"""Give memory that is no longer used back to the system.

A process that reads tables needs hundreds of megabytes for moments. glibc's malloc and Arrow's pool keep what was freed
for the next time, each thread its own: a process then has for months what its largest batch or answer needed.
"""

import ctypes
import gc

GIVE_BACK_SECONDS = 60.0
"""How often a process that runs for long gives back: it takes up to half a second."""
_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""None: this is not glibc."""


def give_back() -> None:
    """Collect cyclic garbage, then return free memory of Python's, Arrow's and the C library's to the system."""
    import pyarrow as pa

    gc.collect()
    pa.default_memory_pool().release_unused()
    if _TRIM is not None:
        _TRIM(0)
