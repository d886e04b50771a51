"""The simulation's random numbers: SplitMix64 (Steele, Lea, Flood, 2014), since the core must not import `random`."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_MASK = 2**64 - 1
_GOLDEN_GAMMA = 0x9E3779B97F4A7C15


class SplitMix64:
    """A sequence of 64-bit numbers determined by the seed, the same on every machine and Python version."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def next(self) -> int:
        """Return the next number, 0 to 2**64 - 1."""
        self._state = (self._state + _GOLDEN_GAMMA) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def between(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return low + self.next() % (high - low + 1)

    def chance(self, share: float) -> bool:
        """Return True with probability `share`, 0 to 1."""
        return self.next() < share * 2**64

    def choice(self, among: Sequence[T]) -> T:
        """Return a random element."""
        return among[self.next() % len(among)]
