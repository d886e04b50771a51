"""The positions up to which the sources of telemetry were folded, and their silences and losses."""

from typing import Literal

import msgspec


class Sequence(msgspec.Struct, array_like=True):
    """The position up to which one source was folded: the start of its incarnation and its last seq."""

    start: int
    seq: int
    skipped: bool = False
    """True if its last event came too late to be folded: its next one comes after a gap."""
    is_complete: bool = False
    """True if none of those that came too late is missing: they are late, and not lost."""

    def covers(self, start: int, seq: int) -> bool:
        """Return whether an event of this incarnation and number was folded before."""
        return (start, seq) <= (self.start, self.seq)


SEQUENCES_MAX = 2_000
"""The sources of one group of which it is kept how far they were folded: as many as a shard has at a time."""


def note_sequence(sequences: dict[str, Sequence], name: str, sequence: Sequence) -> None:
    """Note how far a source has been folded; of too many, the one with the lowest number is forgotten.

    An event of it that comes again would be folded twice then.
    """
    if name not in sequences and len(sequences) >= SEQUENCES_MAX:
        del sequences[min(sequences, key=lambda name: (sequences[name].seq, name))]
    sequences[name] = sequence


class Silence(msgspec.Struct, array_like=True):
    """A source that is silent, or late."""

    since: int
    why: Literal["SILENT", "LATE", "BUFFER_FULL"] = "SILENT"
    """No tick comes; ticks stay behind; too many events waited for it."""
    wrong_clock: bool = False
    """True if it is not waited for because its clock is wrong, whatever its ticks are."""
    ticked: int = 0
    """The time of the last tick of a late source: how far it is; epoch milliseconds."""


class Loss(msgspec.Struct, array_like=True):
    """Events that a source has reported as lost (TELEMETRY_LOST)."""

    from_time: int
    to_time: int
    count: int
    reason: str


class ClockSet(msgspec.Struct, array_like=True):
    """A source has reported that its clock was set (CLOCK_STEP)."""

    at: int
    """When that was, on the timeline; epoch milliseconds."""
    step: int
    """The new clock minus the former one, milliseconds."""
