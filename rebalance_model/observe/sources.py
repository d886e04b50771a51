"""Which sources of a shard speak, by the clocks of the others.

Every source ticks into every shard. The shard has a stopwatch that runs with the ticks of one source, the pace; once
that one stands while another's clock goes on for `source_silent_after`, it runs with the other's. Whose last tick is
further back than that, by the stopwatch, is silent. So it does not matter whether clocks are right, or alike; one step
of a clock counts for half that time at most, so that neither a clock that is set nor an outage of everything silences
anybody.
"""

import msgspec

from rebalance_model.observe.state import Sequence

_FIRST_INTERVALS = 4
"""Until its second tick nobody knows how often a source ticks."""


class Source(msgspec.Struct, array_like=True):
    """One source, by its clock's name."""

    ticked: int
    """Its last tick, by its own clock."""
    heard: int
    """When that was heard, by the stopwatch."""
    interval: int = 0
    """Between its last two ticks: a collector with many brokers ticks less often."""
    silent: bool = False
    """Whether its groups were told that it is silent."""
    last: Sequence | None = None
    """Its last tick's number."""


class Sources(msgspec.Struct, array_like=True):
    """The sources of a shard; times are milliseconds."""

    elapsed: int = 0
    """What the stopwatch shows."""
    pace: str = ""
    since_pace: dict[str, int] = {}
    """How far each other clock has come since the pace's last tick."""
    known: dict[str, Source] = {}

    def is_copy(self, clock: str, start: int, seq: int) -> bool:
        """Whether the source's tick of this number was heard before; else it is now."""
        source = self.known.get(clock)
        if source is None:
            return False
        if source.last is not None and source.last.covers(start, seq):
            return True
        source.last = Sequence(start, seq)
        return False

    def hear(self, clock: str, time: int, silent_after: int) -> bool:
        """A source has ticked; returns whether it had been silent."""
        source = self.known.setdefault(clock, Source(time, self.elapsed))
        step = max(0, time - source.ticked)
        source.ticked += step
        source.interval = step or source.interval
        self._run(clock, min(step, silent_after // 2), silent_after)
        source.heard = self.elapsed
        was_silent, source.silent = source.silent, False
        return was_silent

    def fallen_silent(self, silent_after: int) -> list[str]:
        """Whose ticks have stopped; each is told of once."""
        fallen = [
            clock
            for clock, source in self.known.items()
            if not source.silent and self.elapsed - source.heard > self.patience(clock, silent_after)
        ]
        for clock in fallen:
            self.known[clock].silent = True
        return fallen

    def patience(self, clock: str, silent_after: int) -> int:
        """How long the source may say nothing before it is silent, or has stood."""
        source = self.known.get(clock)
        if source is None or not source.interval:
            return _FIRST_INTERVALS * silent_after
        return max(silent_after, 2 * source.interval)

    def _run(self, clock: str, step: int, silent_after: int) -> None:
        if clock == self.pace or not self.pace:
            self.pace = clock
            self.elapsed += step
            self.since_pace.clear()
            return
        known = self.since_pace.get(clock)
        came = self.since_pace[clock] = known + step if known is not None else 0
        if came > silent_after:
            self.pace = clock
            self.elapsed += came
            for other in self.since_pace:  # who has ticked while the pace stood: how lately is not known
                self.known[other].heard = self.elapsed
            self.since_pace.clear()
