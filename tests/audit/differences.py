"""What was compared, and what differs."""

from collections import Counter
from dataclasses import dataclass, field
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

    def check(self, fits: bool, difference: Difference) -> None:
        """Count one comparison."""
        self.compared[difference.kind] += 1
        if not fits:
            self.differences.append(difference)

    def by_kind(self) -> dict[str, list[Difference]]:
        """Return the differences of each kind that was compared."""
        kinds: dict[str, list[Difference]] = {kind: [] for kind in sorted(self.compared)}
        for difference in self.differences:
            kinds[difference.kind].append(difference)
        return kinds
