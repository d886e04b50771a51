"""Score many seeds together: the table that tests/PROVED.md and the bench show."""

import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from rich.table import Table

from tests.detection.runs import Run, run_popped_seed, run_seed
from tests.detection.scoring import BOUNDS, TELEMETRY, Scores, add, lost_by_both, score
from tests.instruments.figures import PROOFS

SEEDS_KEPT = 500
"""Fewer seeds say nothing about a precision of 0.99."""
INFORMATION = ("OFFSET_REGRESSION", "DUPLICATE_CONSUMPTION", "ASSIGNMENT_SKEW", "POP_RETURNED")
"""Rules that report the cost of a healthy rebalance, of a strategy, or of a client that leaves, with severity info: no
false alarm."""


@dataclass
class Proof:
    """The scores of some seeds."""

    seeds: int = 0
    healthy: int = 0
    scores: Scores = field(default_factory=dict)
    false_alarms: list[str] = field(default_factory=list)
    """The incidents of healthy seeds, except `INFORMATION`; as text."""
    contradictions: list[str] = field(default_factory=list)
    """The incidents that name a limit that none of their figures reached when they were opened, and what must hold of
    any rows (`tests.support.invariants`), and does not; as text."""

    def add(self, other: "Proof") -> None:
        """Add the scores of other seeds."""
        self.seeds += other.seeds
        self.healthy += other.healthy
        self.false_alarms += other.false_alarms
        self.contradictions += other.contradictions
        add(self.scores, other.scores)

    def errors(self) -> list[str]:
        """Return every false incident and every missed condition."""
        return [
            f"{kind} {telemetry}: {text}"
            for (_, telemetry), one in sorted(self.scores.items())
            for kind, texts in (("false", one.false), ("missed", one.missed))
            for text in texts
        ]

    def keep(self, name: str) -> None:
        """Keep the figures in `tests/PROVED.md`, unless of too few seeds."""
        if self.seeds < SEEDS_KEPT:
            return
        scores = sorted(self.scores.items())
        precision = [
            f"{code} {telemetry} {one.precision:.3f}" for (code, telemetry), one in scores if one.precision < 1
        ]
        recall = [f"{code} {telemetry} {one.recall:.3f}" for (code, telemetry), one in scores if one.recall < 1]
        PROOFS.keep(
            name,
            {
                "seeds, healthy ones of them": f"{self.seeds:,}, {self.healthy:,}",
                "false alarms in healthy runs, contradictions": f"{len(self.false_alarms)}, {len(self.contradictions)}",
                "precision below 1": ", ".join(precision) or "none",
                "recall below 1": ", ".join(recall) or "none",
            },
        )

    def detected(self) -> set[str]:
        """Return the rules with a correct incident."""
        return {code for (code, _), one in self.scores.items() if one.correct}


def prove_run(run: Run) -> Proof:
    """Score one run."""
    false_alarms = [
        f"seed {run.seed}, {telemetry}: {one.severity} {one.code} {one.subject}"
        for telemetry in TELEMETRY
        for one in (run.incidents[telemetry] if run.healthy else ())
        if one.severity != "info" or one.code not in INFORMATION
    ]
    contradictions = [
        f"seed {run.seed}, {telemetry}: {one.code} {one.subject} {one.evidence}"
        for telemetry in TELEMETRY
        for one in run.incidents[telemetry]
        if not _is_limit_reached(json.loads(one.evidence))
    ]
    contradictions += [f"seed {run.seed}, {kind}: {text}" for kind, texts in run.violations.items() for text in texts]
    contradictions += [f"seed {run.seed}, both: {text}" for text in lost_by_both(run)]
    return Proof(1, int(run.healthy), dict(score(run)), false_alarms, contradictions)


def _is_limit_reached(evidence: dict[str, object]) -> bool:
    """Return whether a duration of the evidence reaches its limit; a silence is shown by its beginning."""
    limit = evidence.get("limit_ms")
    durations = [value for name, value in evidence.items() if "_ms" in name and "limit" not in name]
    return (
        not isinstance(limit, int)
        or "silent_since" in evidence
        or any(isinstance(value, int) and abs(value) >= limit for value in durations)
    )


def prove_seed(seed: int) -> Proof:
    """Run one seed and score it."""
    return prove_run(run_seed(seed))


def prove_popped_seed(seed: int) -> Proof:
    """Run one seed whose consumers pop, and score it."""
    return prove_run(run_popped_seed(seed))


def prove(seeds: Iterable[int], processes: int | None = None, *, popped: bool = False) -> Iterator[Proof]:
    """Run and score each seed, in this order; `processes` is by default the number of cores."""
    run = prove_popped_seed if popped else prove_seed
    if processes == 1:
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
        yield from pool.map(run, seeds, chunksize=4)


def table(proof: Proof) -> Table:
    """Return precision, recall and time to detect (seconds) of every rule by each kind of telemetry."""
    made = Table(
        title=f"{proof.seeds} seeds; {len(proof.false_alarms)} false alarms in the {proof.healthy} healthy ones"
    )
    for name in ("rule", "telemetry", "opened", "precision", "required", "recall", "delay: median", "worst", "bound"):
        made.add_column(name, justify="left" if name in ("rule", "telemetry") else "right")
    for code, bounds in BOUNDS.items():
        for telemetry in TELEMETRY:
            result = proof.scores.get((code, telemetry))
            if result is None or not (result.correct or result.false or result.required):
                if bounds.detects_by(telemetry):
                    made.add_row(code, telemetry, "0", "", "0", "")
                continue
            delay = ("", "", "")
            if result.delays:
                delay = f"{result.median_delay:.1f}", f"{max(result.delays):.1f}", f"{bounds.max_delay(telemetry):.0f}"
            opened, required = str(result.correct + len(result.false)), str(result.required)
            made.add_row(code, telemetry, opened, f"{result.precision:.4f}", required, f"{result.recall:.4f}", *delay)
    return made
