"""Comparisons, and their differences."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tests.audit.telemetry import Place


class Difference(NamedTuple):
    """One answer that differs from the raw telemetry."""

    kind: str
    time: int
    place: Place
    subject: str
    answered: object
    raw: object
    proof: str = ""
    """The raw event that proves the difference."""


@dataclass
class Result:
    """The number of comparisons by kind, and the differences."""

    compared: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    way: str = ""
    without: frozenset[str] = frozenset()

    def check(self, fits: bool, difference: Difference) -> None:
        """Count one comparison."""
        kind = f"{difference.kind} by {self.way}" if self.way else difference.kind
        if difference.kind not in self.without:
            self.compared[kind] += 1
            if not fits:
                self.differences.append(difference._replace(kind=kind))

    def by(self, way: str, without: frozenset[str] = frozenset()) -> "Result":
        """Return the same result for comparisons of what was asked in one way.

        Args:
            way: its name, which is added to the kinds.
            without: the kinds that this way does not answer, and that are not counted.
        """
        return replace(self, way=way, without=without)

    def by_kind(self) -> dict[str, list[Difference]]:
        """Return the differences of each kind that was compared."""
        kinds: dict[str, list[Difference]] = {kind: [] for kind in sorted(self.compared)}
        for difference in self.differences:
            kinds[difference.kind].append(difference)
        return kinds
