"""Incidents against what was really so: right, false, missed, and how late."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from statistics import median

from rebalance_model.observe.rules.registry import codes_needing
from rebalance_model.simulation.cluster import START
from tests.detection.runs import TELEMETRY, Found, Run
from tests.detection.spans import MAY, Span

S = 1_000
LOOK = 2 * S
"""What is over at once may have been told before a look saw it."""


@dataclass(frozen=True)
class Bounds:
    """What a rule promises, in seconds."""

    open_after: float = 0
    """How long its condition must hold before the rule may open an incident at all."""
    hook: float = 5
    """How much later it has opened one by the hook."""
    poll: float = 30
    """And by polls: two answers and a tick, unless the rule needs more."""
    early: float = 3
    """What is known of a beginning is coarser than a look."""
    late: float = 30
    """How long after its end the condition may still be believed in: until two more answers."""
    needs: str = "either"
    """hook, poll or either."""

    def knows(self, telemetry: str) -> bool:
        """Whether the rule has anything to go by."""
        return self.needs in (telemetry, "either") or telemetry == "both"

    def delay(self, telemetry: str) -> float:
        """How long after the earliest moment at the latest."""
        if telemetry == "both":
            return max(self.hook if self.needs != "poll" else 0, self.poll if self.needs != "hook" else 0)
        return self.hook if telemetry == "hook" else self.poll


def _needs(code: str) -> str:
    if code in codes_needing("HOOKS"):
        return "hook"
    return "poll" if code in codes_needing("POLLS", "OFFSETS") else "either"


_PROMISED = {
    "ORDERED_QUEUE_STUCK": Bounds(60, hook=12, early=12),
    "QUEUE_STALLED": Bounds(90, hook=12, early=12),
    "LOCK_EXPIRED": Bounds(poll=35),
    "LOCK_ORPHANED": Bounds(poll=45),
    "LOCK_CONTENDED": Bounds(),
    "BROKER_LOCKS_LOST": Bounds(),
    "PULL_EXPIRED": Bounds(poll=13),
    "QUEUE_UNASSIGNED": Bounds(20, poll=170, early=12),
    "QUEUE_DOUBLE_OWNED": Bounds(hook=60, poll=35),
    "ASSIGNMENT_MISMATCH": Bounds(poll=40),
    "STRATEGY_MISMATCH": Bounds(),
    "MIXED_CONSUME_MODE": Bounds(),
    "CID_VIEW_SPLIT": Bounds(60, hook=60, poll=40, early=12),
    "ROUTE_VIEW_SPLIT": Bounds(60, poll=40, early=12),
    "REBALANCE_STALLED": Bounds(poll=40),
    "REBALANCE_STORM": Bounds(hook=40, poll=60),
    "SUBSCRIPTION_INCONSISTENT": Bounds(150, hook=40, poll=40, early=12),
    "CLIENT_ID_COLLISION": Bounds(25, hook=45, poll=135),
    "CLIENT_UNRESPONSIVE": Bounds(poll=45),
    "STALE_HEARTBEAT": Bounds(),
    "CONSUMER_IDLE": Bounds(60, poll=40, early=12),
    "ASSIGNMENT_SKEW": Bounds(60, poll=40, early=12),
    "ZOMBIE_QUEUE": Bounds(poll=35),
    "UNLOCK_PENDING": Bounds(poll=13),
    "OFFSET_REGRESSION": Bounds(),
    "DUPLICATE_CONSUMPTION": Bounds(hook=10),
    "LAG_GROWTH": Bounds(300, poll=40, early=25),
    "NO_ACTIVE_CLIENTS_WITH_LAG": Bounds(60, poll=30, early=12),
    "BROKER_UNREACHABLE": Bounds(),
    "TELEMETRY_GAP": Bounds(15, early=16),
    "CLOCK_SKEW": Bounds(60, poll=60, early=12),
}
BOUNDS = {code: replace(bounds, needs=_needs(code)) for code, bounds in _PROMISED.items()}


@dataclass
class Score:
    """Of one rule on one kind of telemetry."""

    right: int = 0
    false: list[str] = field(default_factory=list)
    must: int = 0
    missed: list[str] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    """Seconds from the earliest moment to the incident, of each condition that had to be told."""

    @property
    def precision(self) -> float:
        """How many incidents were none too many."""
        total = self.right + len(self.false)
        return self.right / total if total else 1

    @property
    def recall(self) -> float:
        """How many conditions were told."""
        return 1 - len(self.missed) / self.must if self.must else 1

    @property
    def median_late(self) -> float | None:
        """In seconds."""
        return median(self.late) if self.late else None


Scores = dict[tuple[str, str], Score]
"""By code and telemetry."""


def score(run: Run) -> Scores:
    """The scores of one run."""
    scores: Scores = defaultdict(Score)
    for telemetry in TELEMETRY:
        for one in run.found[telemetry]:
            _judge(run, telemetry, one, scores[one.code, telemetry])
        _recall(run, telemetry, scores)
    return scores


def add(total: Scores, more: Scores) -> None:
    """Sum up."""
    for key, one in more.items():
        into = total.setdefault(key, Score())
        into.right += one.right
        into.must += one.must
        into.false += one.false
        into.missed += one.missed
        into.late += one.late


def _judge(run: Run, telemetry: str, one: Found, into: Score) -> None:
    bounds = BOUNDS[one.code]
    spans = run.spans[one.group].of(MAY, one.code, one.subject)
    if bounds.knows(telemetry) and any(
        span.begin + (bounds.open_after - bounds.early) * S <= one.opened <= span.end + bounds.late * S
        and span.end - span.begin >= (bounds.open_after - bounds.early - 1) * S
        for span in spans
    ):
        into.right += 1
    else:
        into.false.append(
            f"seed {run.seed}: {_name(one.group, one.code, one.subject)} {one.sub_cause} at {_at(one.opened)}"
        )


def _recall(run: Run, telemetry: str, scores: Scores) -> None:
    levels = TELEMETRY if telemetry == "both" else (telemetry,)
    for group, spans in run.spans.items():
        for level in levels:
            for code, subject, span in spans.all_of(level):
                bounds = BOUNDS[code]
                earliest, latest = bounds.open_after * S, (bounds.open_after + bounds.delay(telemetry)) * S
                if span.end - span.begin > latest and bounds.knows(telemetry):
                    opened = _opened(run, telemetry, group, code, subject, span)
                    into = scores[code, telemetry]
                    into.must += 1
                    if opened is None:
                        into.missed.append(
                            f"seed {run.seed}: {_name(group, code, subject)} {_at(span.begin)} to {_at(span.end)}"
                        )
                    else:
                        into.late.append(max(0, opened - span.begin - earliest) / S)


def _opened(run: Run, telemetry: str, group: str, code: str, subject: str, span: Span) -> int | None:
    """When the incident of a condition was opened: the first that stood during it."""
    times = [
        one.opened
        for one in run.found[telemetry]
        if (one.group, one.code, one.subject) == (group, code, subject)
        and one.opened <= span.end + S
        and (one.resolved is None or one.resolved >= span.begin - LOOK)
    ]
    return min(times, default=None)


def _name(group: str, code: str, subject: str) -> str:
    return f"{code} {group} {subject}".rstrip()


def _at(time: int) -> str:
    return f"{(time - START) / 1000:.0f} s"
