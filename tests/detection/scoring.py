"""Score incidents against the ground truth: correct, false and missed ones, and the time to detect."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from statistics import median

from rebalance_model.observe.rules.registry import codes_needing
from simulation.cluster import START
from tests.detection import invariants
from tests.detection.conditions import SECOND
from tests.detection.invariants import Warned
from tests.detection.runs import TELEMETRY, Incident, Run
from tests.detection.spans import ALLOWED, Span

BEFORE_SPAN_MS = 2 * SECOND
"""How long before a span an incident may be resolved and still count: a condition may begin before its first sample."""


@dataclass(frozen=True)
class Bounds:
    """The time in which a rule opens an incident; seconds."""

    open_after: float = 0
    """The time for which the condition must hold before the rule may open an incident."""
    hook: float = 5
    """The longest delay after `open_after` by the hook."""
    poll: float = 30
    """The same by polls: two answers and a tick, unless the rule needs more."""
    early: float = 3
    """How much earlier the rule may open it, since telemetry dates the beginning less precisely than a sample."""
    early_by_hook: float | None = None
    """The same by hooks alone, if it differs."""
    late: float = 30
    """How long after the condition's end the rule may open it: until two more answers."""
    needs: str = "either"
    """hook, poll or either."""

    def detects_by(self, telemetry: str) -> bool:
        """Return whether the rule can detect its condition by this kind of telemetry."""
        return self.needs in (telemetry, "either") or telemetry == "both"

    def early_by(self, telemetry: str) -> float:
        """Return how much before `open_after` the rule may open an incident by this kind of telemetry; seconds."""
        return self.early_by_hook if telemetry == "hook" and self.early_by_hook is not None else self.early

    def max_delay(self, telemetry: str) -> float:
        """Return the longest delay after `open_after`; seconds."""
        if telemetry == "both":
            return max(self.hook if self.needs != "poll" else 0, self.poll if self.needs != "hook" else 0)
        return self.hook if telemetry == "hook" else self.poll


def _needs(code: str) -> str:
    if code in codes_needing("HOOKS", "POPS"):
        return "hook"
    return "poll" if code in codes_needing("POLLS", "OFFSETS", "DEAD_LETTERS") else "either"


_BOUNDS = {
    "ORDERED_QUEUE_STUCK": Bounds(60, hook=12, early=12),
    "QUEUE_STALLED": Bounds(90, hook=12, early=12),
    "LOCK_EXPIRED": Bounds(poll=35),
    "LOCK_ORPHANED": Bounds(hook=10, poll=45),  # 5 s, and until the next owner asks
    "LOCK_CONTENDED": Bounds(),
    "BROKER_LOCKS_LOST": Bounds(),
    "PULL_REFUSED": Bounds(45, hook=25, early=12),  # a pull that is held is refused when it is processed again
    "PULL_EXPIRED": Bounds(poll=13),
    "QUEUE_UNASSIGNED": Bounds(20, poll=170, early=12),
    "QUEUE_DOUBLE_OWNED": Bounds(hook=60, poll=35),
    "ASSIGNMENT_MISMATCH": Bounds(poll=40),
    "STRATEGY_MISMATCH": Bounds(),
    "MIXED_CONSUME_MODE": Bounds(),
    "MIXED_MEMBERS": Bounds(hook=35, poll=25),
    "CID_VIEW_SPLIT": Bounds(60, hook=60, poll=40, early=12),
    "ROUTE_VIEW_SPLIT": Bounds(60, poll=40, early=12),
    "REBALANCE_STALLED": Bounds(poll=40),
    "REBALANCE_STORM": Bounds(hook=40, poll=60),
    "SUBSCRIPTION_INCONSISTENT": Bounds(150, hook=40, poll=40, early=12),
    "CLIENT_ID_COLLISION": Bounds(25, hook=45, poll=135, early=4),  # the truth is read once a second
    "CLIENT_UNRESPONSIVE": Bounds(poll=45),
    "CONSUMER_IDLE": Bounds(60, poll=40, early=12),
    "ASSIGNMENT_SKEW": Bounds(60, poll=40, early=12),
    "ZOMBIE_QUEUE": Bounds(poll=35),
    "UNLOCK_PENDING": Bounds(poll=13),
    "OFFSET_REGRESSION": Bounds(),
    "DUPLICATE_CONSUMPTION": Bounds(hook=10),
    "MESSAGES_RETRIED": Bounds(),
    "MESSAGES_DEAD_LETTERED": Bounds(poll=75, late=75),  # brokers are asked once a minute
    # Hooks see no route, so they count from when the queue was last read, which may be long before it was removed.
    "MESSAGES_STRANDED": Bounds(60, poll=40, early=12, early_by_hook=60),
    "TOPIC_NOT_FOUND": Bounds(150, poll=40, early=12),
    "LAG_GROWTH": Bounds(300, poll=40, early=25),
    "NO_ACTIVE_CLIENTS_WITH_LAG": Bounds(60, poll=30, early=12),
    "MIXED_REQUEST_MODE": Bounds(40, hook=12, early=12),
    "POP_HELD_LONG": Bounds(),
    "POP_NOT_ACKING": Bounds(hook=8),
    "POP_RETURNED": Bounds(hook=8),
    "POP_STOPPED": Bounds(hook=6, poll=35),
    "PROXY_CLIENT_GONE": Bounds(hook=8),
    "BROKER_UNREACHABLE": Bounds(),
    "TELEMETRY_GAP": Bounds(15, early=16),
    "CLOCK_SKEW": Bounds(60, poll=60, early=12),
}
BOUNDS = {code: replace(bounds, needs=_needs(code)) for code, bounds in _BOUNDS.items()} | {
    # By hook; by polls a broker that lacks the group, after two heartbeat intervals.
    "STALE_HEARTBEAT": Bounds(poll=100),
}


@dataclass
class Score:
    """The score of one rule by one kind of telemetry."""

    correct: int = 0
    """Incidents opened while their condition held."""
    false: list[str] = field(default_factory=list)
    """The other incidents, as text."""
    required: int = 0
    """Conditions that had to be detected."""
    missed: list[str] = field(default_factory=list)
    """Those of them that were not, as text."""
    delays: list[float] = field(default_factory=list)
    """Seconds from `Bounds.open_after` to the incident, for each condition that had to be detected and was."""

    @property
    def precision(self) -> float:
        """The share of the incidents that are correct; 1 if there are none."""
        opened = self.correct + len(self.false)
        return self.correct / opened if opened else 1

    @property
    def recall(self) -> float:
        """The share of the required conditions that were detected; 1 if there are none."""
        return 1 - len(self.missed) / self.required if self.required else 1

    @property
    def median_delay(self) -> float | None:
        """The median of the delays, in seconds."""
        return median(self.delays) if self.delays else None


Scores = dict[tuple[str, str], Score]
"""By code and telemetry."""


def score(run: Run) -> Scores:
    """Return the scores of one run."""
    scores: Scores = defaultdict(Score)
    for telemetry in TELEMETRY:
        for incident in run.incidents[telemetry]:
            _score_incident(run, telemetry, incident, scores[incident.code, telemetry])
        for group, code, subject, span in _required_spans(run, telemetry):
            _score_span(run, telemetry, (group, code, subject), span, scores[code, telemetry])
    return scores


def add(total: Scores, more: Scores) -> None:
    """Add scores to a total."""
    for key, more_score in more.items():
        into = total.setdefault(key, Score())
        into.correct += more_score.correct
        into.required += more_score.required
        into.false += more_score.false
        into.missed += more_score.missed
        into.delays += more_score.delays


def lost_by_both(run: Run) -> list[str]:
    """Return the right incidents of hook or polls alone while which both show the group OK.

    One that both have said, too, and ended lately, is not lost: they know of its end, as of a topic that is deleted.
    Nor is one by a hook that says itself that it does not know whether messages wait (seed 2078).
    """
    lost = []
    for telemetry in ("hook", "poll"):
        right: dict[str, list[Warned]] = defaultdict(list)
        for incident in run.incidents[telemetry]:
            if (
                incident.severity != "info"
                and _is_correct(run, telemetry, incident)
                and not _ended_lately(run, incident)
                and not _is_guessed(json.loads(incident.evidence))
            ):
                name = _name(incident.group, incident.code, incident.subject)
                named = f"{telemetry} {name} at {_seconds(incident.opened)}"
                right[incident.group].append(Warned(named, incident.opened, incident.resolved))
        for group, warned in right.items():
            lost += invariants.lost_by_both(warned, run.health["both"][group])
    return lost


def _is_guessed(evidence: dict[str, object]) -> bool:
    """Return whether a queue is said to wait though its lag is not known (`rules.stall`)."""
    return "lag_at_least" in evidence and evidence["lag"] is None and evidence["lag_at_least"] is None


def _ended_lately(run: Run, incident: Incident) -> bool:
    """Return whether both sources have said the same of the group, or anything of the queue, a minute ago or since."""
    return any(
        one.group == incident.group
        and (one.code == incident.code or one.subject == incident.subject != "")
        and one.opened <= incident.opened + 60 * SECOND
        and (one.resolved is None or one.resolved >= incident.opened - 60 * SECOND)
        for one in run.incidents["both"]
    )


def _score_incident(run: Run, telemetry: str, incident: Incident, into: Score) -> None:
    """Count the incident as correct or false."""
    if _is_correct(run, telemetry, incident):
        into.correct += 1
    else:
        name = _name(incident.group, incident.code, incident.subject)
        into.false.append(f"seed {run.seed}: {name} {incident.sub_cause} at {_seconds(incident.opened)}")


def _is_correct(run: Run, telemetry: str, incident: Incident) -> bool:
    """Return whether the incident was opened while its condition held."""
    bounds = BOUNDS[incident.code]
    spans = run.spans[incident.group].of(ALLOWED, incident.code, incident.subject)
    earliest = (bounds.open_after - bounds.early_by(telemetry)) * SECOND
    return bounds.detects_by(telemetry) and any(
        span.begin + earliest <= incident.opened <= span.end + bounds.late * SECOND
        and span.end - span.begin >= earliest - SECOND
        for span in spans
    )


def _required_spans(run: Run, telemetry: str) -> Iterator[tuple[str, str, str, Span]]:
    """Yield the group, code, subject and span of each condition that had to be detected."""
    levels = TELEMETRY if telemetry == "both" else (telemetry,)
    for group, spans in run.spans.items():
        for level in levels:
            for code, subject, span in spans.at(level):
                bounds = BOUNDS[code]
                latest = (bounds.open_after + bounds.max_delay(telemetry)) * SECOND
                if span.end - span.begin > latest and bounds.detects_by(telemetry):
                    yield group, code, subject, span


def _score_span(run: Run, telemetry: str, key: tuple[str, str, str], span: Span, into: Score) -> None:
    """Count the required condition as detected or missed; `key` is its group, code and subject."""
    opened = _opened(run, telemetry, key, span)
    into.required += 1
    if opened is None:
        into.missed.append(f"seed {run.seed}: {_name(*key)} {_seconds(span.begin)} to {_seconds(span.end)}")
    else:
        into.delays.append(max(0, opened - span.begin - BOUNDS[key[1]].open_after * SECOND) / SECOND)


def _opened(run: Run, telemetry: str, key: tuple[str, str, str], span: Span) -> int | None:
    """Return when the first incident that overlaps the span was opened; None if there is none."""
    times = [
        incident.opened
        for incident in run.incidents[telemetry]
        if (incident.group, incident.code, incident.subject) == key
        and incident.opened <= span.end + SECOND
        and (incident.resolved is None or incident.resolved >= span.begin - BEFORE_SPAN_MS)
    ]
    return min(times, default=None)


def _name(group: str, code: str, subject: str) -> str:
    return f"{code} {group} {subject}".rstrip()


def _seconds(time: int) -> str:
    """Return a time as seconds from the scenario's start."""
    return f"{(time - START) / 1000:.0f} s"
