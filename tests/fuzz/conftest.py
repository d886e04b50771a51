"""The figures of each kind of input: how many mutants, what became of them, and the slowest."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SECONDS_MAX = 3.0
"""Processor time that one input may take. The aim is one second on an idle machine, after which the reader of answers
gives up by itself; a second of a busy processor does less. What hangs exceeds any limit."""


class Tally:
    """Counts what became of the mutants of a test, and measures them."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.slowest = 0.0

    def add(self, outcome: str, count: int = 1) -> None:
        self.counts[outcome] += count

    @contextmanager
    def in_time(self) -> Iterator[None]:
        """Check that the block takes less than `SECONDS_MAX`."""
        begin = time.thread_time()
        yield
        seconds = time.thread_time() - begin
        self.slowest = max(self.slowest, seconds)
        assert seconds < SECONDS_MAX


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Yield the figures of a test; the long form prints them, for PROVED.md."""
    made = Tally()
    yield made
    if request.config.option.markexpr == "prove":
        parts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(made.counts.items()))
        sentence = f"{request.node.name}: {sum(made.counts.values()):,}: {parts}; slowest {made.slowest * 1000:.0f} ms"
        with request.config.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
            print(f"\n{sentence}", flush=True)
