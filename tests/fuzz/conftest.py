"""The figures of each kind of input: how many mutants, what became of them, and the slowest."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SECONDS_MAX = 3.0
"""Processor time that one input may take. The aim is one second on an idle machine, after which the reader of answers
gives up by itself; a second of a busy processor does less. What hangs exceeds any limit."""
GROWN_BYTES_MAX = 300_000_000
"""What a test may add to the memory of its process after its first quarter; Hypothesis keeps a tree of its examples."""
PEAK_BYTES_MAX = 300_000_000
"""What one input may take at a time."""
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


class Tally:
    """Counts what became of the mutants of a test, and measures them."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.slowest = 0.0
        self.grown_bytes_max = GROWN_BYTES_MAX
        self.notes: list[str] = []
        self._sizes: list[int] = []

    def add(self, outcome: str, count: int = 1) -> None:
        self.counts[outcome] += count
        self._sizes.append(resident_bytes())

    def note(self, figures: str) -> None:
        """Add figures of a test's own."""
        self.notes.append(figures)

    @property
    def grown_bytes(self) -> int:
        """Return how much this process grew between the first quarter of the test and its end."""
        return self._sizes[-1] - self._sizes[len(self._sizes) // 4] if self._sizes else 0

    @contextmanager
    def in_time(self) -> Iterator[None]:
        """Check what the block takes of time and memory."""
        begin, before = time.thread_time(), resident_bytes()
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        yield
        seconds = time.thread_time() - begin
        self.slowest = max(self.slowest, seconds)
        assert seconds < SECONDS_MAX
        assert peak_bytes() - before < PEAK_BYTES_MAX


def peak_bytes() -> int:
    """Return the most memory that this process has held since its peak was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def resident_bytes() -> int:
    """Return the memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_SIZE


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Yield the figures of a test; those of the long form are kept in PROVED.md."""
    made = Tally()
    yield made
    if request.config.option.markexpr == "prove":
        parts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(made.counts.items()))
        figures = f"slowest {made.slowest * 1000:.0f} ms, memory {made.grown_bytes / 1e6:+.0f} MB"
        said = "; ".join([f"{sum(made.counts.values()):,}: {parts}; {figures}", *made.notes])
        request.node.user_properties.append(("mutants", said))
        assert made.grown_bytes < made.grown_bytes_max
