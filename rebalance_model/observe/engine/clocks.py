"""Brings the times of all sources onto one timeline (Materialize calls that reclocking).

Hosts are trusted to keep NTP time. Whether a clock is wrong is measured, never guessed from how late rows are: a
constant delay looks the same. A collector's question carries its time, the broker's hook reports when it saw it
(CLOCK_SEEN), and the collector's BROKER_STATUS says when the answer came: asked <= seen <= answered bounds the
difference of the two clocks by the round trip, as in NTP. Where no hook reports that, the broker's own ``now`` in
BROKER_STATUS bounds it to a second.

The reference is the clock with which most sources agree within their bounds; among equals a collector, the lowest name
first. A source is corrected by the middle of its bounds where 0 lies more than `TOLERANCE` outside them, and the
correction changes only when new bounds exclude it.
"""

from typing import TypeVar

import msgspec

from rebalance_model.observe.clock_bounds import Bounds, bounds_of_now

K = TypeVar("K")
T = TypeVar("T")

TOLERANCE = 100
"""Clocks that differ by so much at most are left as they are; milliseconds."""
UNANSWERED_MAX = 64
"""So many questions and so many sightings wait for their other half; of more the oldest is dropped."""

Question = tuple[str, str, int]
"""A collector, the broker that it asked, and when (by its own clock)."""


class Clocks(msgspec.Struct, array_like=True):
    """What is known of the clocks of a shard's sources, by the sources' names."""

    bounds: dict[str, dict[str, Bounds]] = {}
    """By collector and hook: the hook's clock less the collector's."""
    corrections: dict[str, int] = {}
    """What is taken from a source's times; absent: nothing."""
    answered: dict[Question, int] = {}
    """Questions that were answered, and whose sighting has not come."""
    seen: dict[Question, tuple[str, int]] = {}
    """Questions that a hook saw, by which hook and when, and whose answer has not come."""
    measured: dict[str, dict[int, Bounds]] = {}
    """By hook and the time of a question: the hook's clock less the reference, as that question bounds it."""

    def note_answer(self, question: Question, answered: int) -> bool:
        """Take the time of an answer (collector's clock); returns whether a correction has changed."""
        if (sighting := self.seen.pop(question, None)) is None:
            _keep(self.answered, question, answered)
            return False
        hook, seen = sighting
        return self._bound(question, hook, (seen - answered, seen - question[2]))

    def note_sighting(self, question: Question, hook: str, seen: int) -> bool:
        """Take the time at which a hook saw the question (its clock); returns whether a correction has changed."""
        if (answered := self.answered.pop(question, None)) is None:
            _keep(self.seen, question, (hook, seen))
            return False
        return self._bound(question, hook, (seen - answered, seen - question[2]))

    def note_now(self, question: Question, answered: int, hook: str, now: int) -> bool:
        """Take the broker's own clock, cut to a second; returns whether a correction has changed."""
        known = self.bounds.get(question[0], {}).get(hook)
        bounds = bounds_of_now(question[2], answered, now)
        if known is not None and bounds[0] <= known[1] and known[0] <= bounds[1]:
            return False  # the hook's own sighting says as much, and is narrower
        return self._bound(question, hook, bounds)

    def measured_by(self, hook: str, asked: int) -> tuple[Bounds, int] | None:
        """Return what questions up to a time say of a hook's clock, and when the last of them was asked.

        What has come of later questions depends on how late rows are, so it is not looked at.
        """
        found = self.measured.get(hook, {})
        last = max((time for time in found if time <= asked), default=None)
        return (found[last], last) if last is not None else None

    def _bound(self, question: Question, hook: str, bounds: Bounds) -> bool:
        self.bounds.setdefault(question[0], {})[hook] = bounds
        former = dict(self.corrections)
        offsets = self._offsets()
        reference = offsets[self._reference(offsets)]
        for source, offset in offsets.items():
            self._correct(source, (offset[0] - reference[1], offset[1] - reference[0]))
        if hook in offsets:
            bounds = offsets[hook][0] - reference[1], offsets[hook][1] - reference[0]
            _keep(self.measured.setdefault(hook, {}), question[2], bounds)
        return self.corrections != former

    def _correct(self, source: str, bounds: Bounds) -> None:
        low, high = bounds
        known = self.corrections.get(source)
        if known is not None and low <= known <= high:
            return
        if low > TOLERANCE or high < -TOLERANCE:
            self.corrections[source] = (low + high) // 2
        else:
            self.corrections.pop(source, None)

    def _offsets(self) -> dict[str, Bounds]:
        """The clock of each source less that of the first collector, as far as they are connected."""
        first = min(self.bounds)
        offsets: dict[str, Bounds] = {first: (0, 0)}
        waiting = sorted(self.bounds)
        while ready := [c for c in waiting if c in offsets or offsets.keys() & self.bounds[c].keys()]:
            collector = ready[0]
            waiting.remove(collector)
            hooks = self.bounds[collector]
            if collector not in offsets:
                common = min(offsets.keys() & hooks.keys())
                offsets[collector] = offsets[common][0] - hooks[common][1], offsets[common][1] - hooks[common][0]
            low, high = offsets[collector]
            for hook, bounds in sorted(hooks.items()):
                offsets.setdefault(hook, (low + bounds[0], high + bounds[1]))
        return offsets

    def _reference(self, offsets: dict[str, Bounds]) -> str:
        """The clock with which most agree; a collector before a hook, the lowest name before others."""

        def rank(source: str) -> tuple[int, bool, str]:
            agree = sum(_agree(offsets[source], other) for other in offsets.values())
            return -agree, source not in self.bounds, source

        return min(offsets, key=rank)


def _agree(one: Bounds, other: Bounds) -> bool:
    return one[0] - TOLERANCE <= other[1] and other[0] - TOLERANCE <= one[1]


def _keep(table: dict[K, T], key: K, what: T) -> None:
    table[key] = what
    if len(table) > UNANSWERED_MAX:
        del table[next(iter(table))]
