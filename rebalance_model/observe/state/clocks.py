"""Bring the times of all sources onto one timeline (Materialize calls this reclocking).

Hosts are expected to keep NTP time. Whether a clock is wrong is measured, and never inferred from late rows: a constant
delay looks the same. A collector's request carries its time, the broker's hook reports when it saw the request
(CLOCK_SEEN), and the collector's BROKER_STATUS reports when the answer came: asked <= seen <= answered bounds the
difference of the two clocks by the round trip, as in NTP. Where no hook reports CLOCK_SEEN, the broker's own ``now`` in
BROKER_STATUS bounds it to a second.

The reference is the clock that agrees with most sources within their bounds; among equals one that is near the
timeline (a host that boots with a wrong clock must not move the others), then a collector, then the lowest name. A
source is corrected by the middle of its bounds if 0 lies more than `TOLERANCE` outside them.
The correction changes only when new bounds exclude it.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import TypeVar

import msgspec

Bounds = tuple[int, int]
"""The minimum and maximum of one clock minus another one; milliseconds."""
NOW_IS_CUT_TO = 1_000
"""The resolution of BrokerStatus.now (boot time + runtime, whole seconds); milliseconds."""


def bounds_of_now(asked: int, answered: int, now: int) -> Bounds:
    """Return how far a broker's clock is ahead, as bounded by its ``now`` and the times of request and answer."""
    return now - answered, now + NOW_IS_CUT_TO - 1 - asked


K = TypeVar("K")
T = TypeVar("T")

TOLERANCE = 100
"""Clocks that differ by at most this are not corrected; milliseconds."""
UNANSWERED_MAX = 64
"""The maximum of requests, and of sightings, that wait for their counterpart; beyond it the oldest is dropped."""

RequestKey = tuple[str, str, int]
"""A collector, the broker, and when the request was sent (epoch milliseconds by the collector's clock)."""


class Clocks(msgspec.Struct, array_like=True):
    """The measured differences between the clocks of a shard's sources, by source name; milliseconds."""

    bounds: dict[str, dict[str, Bounds]] = {}
    """By collector and hook: the hook's clock minus the collector's."""
    corrections: dict[str, int] = {}
    """By source: the correction that is subtracted from its times; absent: none."""
    answered: dict[RequestKey, int] = {}
    """Answered requests whose sighting has not arrived, with the time of the answer."""
    seen: dict[RequestKey, tuple[str, int]] = {}
    """Requests that a hook saw and whose answer has not arrived: the hook, and the time of the sighting."""
    measured: dict[str, dict[int, Bounds]] = {}
    """By hook and the time of a request: the bounds of the hook's clock minus the reference from that request."""
    off: dict[str, None] = {}
    """Sources whose clock, as it is, is far from the timeline."""

    def note_answer(self, request: RequestKey, answered: int) -> bool:
        """Record the time of an answer (collector's clock); return whether a correction has changed."""
        if (sighting := self.seen.pop(request, None)) is None:
            _keep(self.answered, request, answered)
            return False
        hook, seen = sighting
        return self._bound(request, hook, (seen - answered, seen - request[2]))

    def note_sighting(self, request: RequestKey, hook: str, seen: int) -> bool:
        """Record the time at which a hook saw the request (its clock); return whether a correction has changed."""
        if (answered := self.answered.pop(request, None)) is None:
            _keep(self.seen, request, (hook, seen))
            return False
        return self._bound(request, hook, (seen - answered, seen - request[2]))

    def note_now(self, request: RequestKey, answered: int, hook: str, now: int) -> bool:
        """Record the broker's own clock, truncated to a second; return whether a correction has changed."""
        known = self.bounds.get(request[0], {}).get(hook)
        bounds = bounds_of_now(request[2], answered, now)
        if known is not None and bounds[0] <= known[1] and known[0] <= bounds[1]:
            return False  # the hook's own sighting is more precise
        return self._bound(request, hook, bounds)

    def measured_by(self, hook: str, asked: int) -> tuple[Bounds, int] | None:
        """Return the bounds of a hook's clock from requests up to a time, and when the last of them was sent.

        Later requests are ignored: which of them have arrived depends on how late rows are.
        """
        found = self.measured.get(hook, {})
        last = max((time for time in found if time <= asked), default=None)
        return (found[last], last) if last is not None else None

    def note_off(self, source: str, *, is_off: bool) -> bool:
        """Record whether a source's clock is far from the timeline; return whether a correction has changed."""
        if is_off == (source in self.off):
            return False
        if is_off:
            self.off[source] = None
        else:
            del self.off[source]
        return self._correct_all()[0]

    def note_set(self, source: str) -> None:
        """Record that a source's clock was set, and discard all measurements of it and by it."""
        self.forget(source)
        self.off.pop(source, None)
        self.answered = {request: at for request, at in self.answered.items() if request[0] != source}
        self.seen = {
            request: (hook, at) for request, (hook, at) in self.seen.items() if source not in (request[0], hook)
        }
        self.measured.clear()
        self._correct_all()

    def forget(self, source: str) -> None:
        """Forget what was measured of a source's clock."""
        self.corrections.pop(source, None)
        self.measured.pop(source, None)
        self.bounds.pop(source, None)
        for hooks in self.bounds.values():
            hooks.pop(source, None)

    def _bound(self, request: RequestKey, hook: str, bounds: Bounds) -> bool:
        self.bounds.setdefault(request[0], {})[hook] = bounds
        changed, differences = self._correct_all()
        if hook in differences:
            _keep(self.measured.setdefault(hook, {}), request[2], differences[hook])
        return changed

    def _correct_all(self) -> tuple[bool, dict[str, Bounds]]:
        """Correct each source; return whether a correction has changed, and each clock minus the reference."""
        former = dict(self.corrections)
        self.bounds = {collector: hooks for collector, hooks in self.bounds.items() if hooks}
        offsets = self._offsets() if self.bounds else {}
        reference = offsets[self._reference(offsets)] if offsets else (0, 0)
        differences = {name: (low - reference[1], high - reference[0]) for name, (low, high) in offsets.items()}
        for source in former.keys() - offsets.keys():
            del self.corrections[source]
        for source, difference in differences.items():
            self._correct(source, difference)
        return self.corrections != former, differences

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
        """Return the clock of each source minus that of the first collector, as far as they are connected."""
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
        """Return the source whose clock most agree with; then one near the timeline, a collector, the lowest name."""
        agree = agreements(offsets)
        return min(offsets, key=lambda name: (-agree[name], name in self.off, name not in self.bounds, name))


def agreements(offsets: Mapping[str, Bounds]) -> dict[str, int]:
    """Return with how many clocks each one agrees, itself included: their bounds are at most `TOLERANCE` apart.

    It sorts instead of comparing each clock with each, because it is called for every answered request: with 300 hooks
    that took 28 ms. A clock that is set back between a request and its answer has its minimum above its maximum, so it
    may be too low and too high at once (`beyond_both`).

    Args:
        offsets: the bounds of each clock minus the same one, by source; milliseconds.
    """
    highs, by_low = sorted(high for _, high in offsets.values()), sorted(offsets.values())
    above: list[int] = []  # in order, the maxima of the clocks whose minimum is too high
    agree: dict[str, int] = {}
    for source, (low, high) in sorted(offsets.items(), key=lambda one: one[1][1], reverse=True):
        while by_low and by_low[-1][0] > high + TOLERANCE:
            insort(above, by_low.pop()[1])
        below, beyond_both = bisect_left(highs, low - TOLERANCE), bisect_left(above, low - TOLERANCE)
        agree[source] = len(offsets) - len(above) - below + beyond_both
    return agree


def _keep(table: dict[K, T], key: K, what: T) -> None:
    table[key] = what
    if len(table) > UNANSWERED_MAX:
        del table[next(iter(table))]
