"""Many seeds, scored together, on every core: the table that tests/PROVED.md and the bench show."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from rich.table import Table

from tests.detection.runs import Run, run
from tests.detection.scoring import BOUNDS, TELEMETRY, Scores, add, score

ACCOUNTS = ("OFFSET_REGRESSION", "DUPLICATE_CONSUMPTION", "ASSIGNMENT_SKEW")
"""What also a healthy rebalance costs, or a strategy brings with it: told as an information, if it is so at all."""


@dataclass
class Proof:
    """What some seeds have shown."""

    seeds: int = 0
    healthy: int = 0
    scores: Scores = field(default_factory=dict)
    alarms: list[str] = field(default_factory=list)
    """Incidents of healthy runs that tell more than what a rebalance costs."""

    def take(self, other: "Proof") -> None:
        """Sum up."""
        self.seeds += other.seeds
        self.healthy += other.healthy
        self.alarms += other.alarms
        add(self.scores, other.scores)

    def wrong(self) -> list[str]:
        """Every false alarm and every miss."""
        return [
            f"{what} {telemetry}: {where}"
            for (_, telemetry), one in sorted(self.scores.items())
            for what, found in (("false", one.false), ("missed", one.missed))
            for where in found
        ]

    def codes(self) -> set[str]:
        """What was rightly told."""
        return {code for (code, _), one in self.scores.items() if one.right}


def of(told: Run) -> Proof:
    """What one run has shown."""
    alarms = [
        f"seed {told.seed}, {telemetry}: {one.severity} {one.code} {one.subject}"
        for telemetry in TELEMETRY
        for one in (told.found[telemetry] if told.healthy else ())
        if one.severity != "info" or one.code not in ACCOUNTS
    ]
    return Proof(1, int(told.healthy), dict(score(told)), alarms)


def of_seed(seed: int) -> Proof:
    """What one seed has shown."""
    return of(run(seed))


def prove(seeds: Iterable[int], processes: int | None = None) -> Iterator[Proof]:
    """What each seed has shown, in their order."""
    if processes == 1:
        yield from map(of_seed, seeds)
        return
    with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
        yield from pool.map(of_seed, seeds, chunksize=4)


def table(proof: Proof) -> Table:
    """Precision and recall of every rule on each kind of telemetry, and how late it is, in seconds."""
    made = Table(
        title=f"{proof.seeds} seeds, {proof.healthy} of them healthy: {len(proof.alarms)} false alarms in those"
    )
    for name in ("rule", "telemetry", "opened", "precision", "had to", "recall", "late: median", "worst", "bound"):
        made.add_column(name, justify="left" if name in ("rule", "telemetry") else "right")
    for code, bounds in BOUNDS.items():
        for telemetry in TELEMETRY:
            one = proof.scores.get((code, telemetry))
            if one is None or not (one.right or one.false or one.must):
                if bounds.knows(telemetry):
                    made.add_row(code, telemetry, "0", "", "0", "")
                continue
            late = ("", "", "")
            if one.late:
                late = f"{one.median_late:.1f}", f"{max(one.late):.1f}", f"{bounds.delay(telemetry):.0f}"
            opened = str(one.right + len(one.false))
            made.add_row(code, telemetry, opened, f"{one.precision:.4f}", str(one.must), f"{one.recall:.4f}", *late)
    return made
