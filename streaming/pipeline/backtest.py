"""Run the archived telemetry under another policy, and compare the incidents with those that were reported.

Rows of `telemetry` are folded in (partition, offset) order, in plain Python, by the same rules as in the job; the job's
tables are read and nothing is written. The reported incidents are in `anomalies`. Incidents of one code and subject
whose times overlap are one incident; the comparison covers when it opened and resolved within the period, its worst
severity and its last sub-cause.

The observer begins without state, some time before the period (the warm-up): what began earlier is unknown to it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import inf
from typing import Literal

import msgspec

from rebalance_model.observe.effects import AnyRow, IncidentTransition
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from streaming.base.errors import UserError
from streaming.pipeline.archive_rows import batches, decoded
from streaming.tables import ReadModel
from streaming.tables.reader import Row

Change = Literal["OPENED", "NOT_OPENED", "MOVED"]
IncidentKey = tuple[str, str, str, str]
"""Cluster, group, code, subject."""

_RANK = {"info": 0, "warning": 1, "critical": 2}


@dataclass(frozen=True)
class BacktestPeriod:
    """The compared period: both ends are epoch milliseconds, inclusive."""

    since: int
    until: int
    warm_up: int
    """The observer begins this long before `since`; milliseconds."""
    groups: str = "*"
    """A glob of group names."""


class IncidentPeriod(msgspec.Struct, frozen=True):
    """One incident within the period; times are epoch milliseconds."""

    opened_at: int
    """At least the period's start."""
    resolved_at: int | None
    """None: open at the period's end."""
    severity: str
    """The worst severity."""
    sub_cause: str
    """The last sub-cause."""


class IncidentDifference(msgspec.Struct, frozen=True):
    """One incident that the other policy would have reported differently."""

    change: Change
    cluster: str
    group: str
    code: str
    subject: str
    was: IncidentPeriod | None
    """The reported incident; None: none."""
    would_be: IncidentPeriod | None
    """The incident under the other policy; None: none."""


class CodeCount(msgspec.Struct, frozen=True):
    """The numbers of incidents of one code."""

    code: str
    same: int
    """The conclusions that are the same under both policies."""
    additional: int
    """Incidents that only the other policy opens."""
    missing: int
    """Incidents that only the recorded policy opened."""
    changed: int
    """Under both, with another opening, end, severity or sub-cause."""


class BacktestResult(msgspec.Struct, frozen=True):
    """The result of a backtest."""

    since: int
    until: int
    rows: int
    """Archived rows that were folded, including those of the warm-up."""
    same: int
    """Incidents that are the same under both policies."""
    differences: tuple[IncidentDifference, ...]
    warnings: tuple[str, ...]
    codes: tuple[CodeCount, ...] = ()
    """The numbers by code, sorted."""


@dataclass
class IncidentPeriods:
    """Incidents assembled from their transitions, which come in the order of each group's rows."""

    span: BacktestPeriod
    by_subject: dict[IncidentKey, dict[str, IncidentPeriod]] = field(default_factory=dict)

    def take_all(self, effects: Iterable[AnyRow]) -> None:
        """Record the transitions among these rows."""
        for effect in effects:
            if isinstance(effect, IncidentTransition):
                self.take(effect)

    def take(self, transition: IncidentTransition) -> None:
        """Record one transition."""
        if transition.time > self.span.until or not fnmatchcase(transition.group, self.span.groups):
            return
        periods = self.by_subject.setdefault(
            (transition.cluster, transition.group, transition.code, transition.subject), {}
        )
        known = periods.get(transition.incident_id)
        worst = max(known.severity if known else transition.severity, transition.severity, key=_RANK.__getitem__)
        ended = transition.time if transition.transition == "RESOLVED" else None
        if ended is not None and ended < self.span.since:
            periods.pop(transition.incident_id, None)
        else:
            periods[transition.incident_id] = IncidentPeriod(
                max(transition.opened_at, self.span.since), ended, worst, transition.sub_cause
            )


def backtest(model: ReadModel, policy: Policy, span: BacktestPeriod) -> BacktestResult:
    """Fold the period's telemetry under the policy, and compare with the reported incidents.

    Raises:
        UserError: the archive has no rows of the period.
    """
    ranges = _ranges(model, span)
    would_be, rows = _folded(model, policy, span, ranges)
    was = _reported(model, span)
    same, differences = Counter[str](), []
    for subject in sorted(was.by_subject.keys() | would_be.by_subject.keys()):
        pairs = _pairs(
            list(was.by_subject.get(subject, {}).values()), list(would_be.by_subject.get(subject, {}).values())
        )
        same[subject[2]] += sum(before == after for before, after in pairs)
        differences += [IncidentDifference(_change(*pair), *subject, *pair) for pair in pairs if pair[0] != pair[1]]
    differences.sort(key=lambda d: min(period.opened_at for period in (d.was, d.would_be) if period is not None))
    warnings, codes = tuple(_warnings(ranges, span)), tuple(_codes(same, differences))
    return BacktestResult(span.since, span.until, rows, same.total(), tuple(differences), warnings, codes)


def _codes(same: Mapping[str, int], differences: Iterable[IncidentDifference]) -> Iterator[CodeCount]:
    changes = Counter((one.code, one.change) for one in differences)
    for code in sorted(same):
        yield CodeCount(code, same[code], *(changes[code, change] for change in ("OPENED", "NOT_OPENED", "MOVED")))


def last_time(model: ReadModel) -> int | None:
    """Return the time of the last archived row (``time``, epoch milliseconds); None if nothing is archived."""
    last: int | None = model.rows(f"SELECT max(t.time) AS last FROM telemetry t WHERE {_LEADING}")[0]["last"]  # noqa: S608  ours
    return last


_LEADING = "t.source <> 'hook' OR NOT EXISTS (SELECT 1 FROM telemetry o WHERE o.source <> 'hook')"
"""The rows that determine the range of time: those of collectors, if there are any. A hook's clock may be hours off."""

_RANGES = f"""
SELECT
    t.partition,
    min(t.time) AS begins,
    min(t.offset) FILTER (WHERE t.time >= from_ms($begin)) AS first,
    max(t.offset) FILTER (WHERE t.time <= from_ms($until)) AS last
FROM telemetry t
WHERE {_LEADING}
GROUP BY t.partition
ORDER BY t.partition
"""  # noqa: S608  no text of a user is in it

_ROWS = """
SELECT t.value, t.ingest_time
FROM telemetry t
WHERE t.partition = $partition AND t.offset BETWEEN $first AND $last AND (t.group IS NULL OR t.group GLOB $groups)
ORDER BY t.offset
"""

_REPORTED = """
SELECT a.*
FROM anomalies a JOIN incidents i ON i.cluster = a.cluster AND i.group = a.group AND i.incident_id = a.incident_id
WHERE i.opened_at <= from_ms($until) AND (i.cleared_at IS NULL OR i.cleared_at >= from_ms($since))
    AND a.time <= from_ms($until)
ORDER BY a.cluster, a.group, a.time, a.seq
"""


def _ranges(model: ReadModel, span: BacktestPeriod) -> list[Row]:
    """Return for each partition the offsets to fold, and the time at which its archive begins."""
    found = model.rows(_RANGES, {"begin": span.since - span.warm_up, "until": span.until})
    ranges = [row for row in found if row["first"] is not None and row["last"] is not None]
    if not any(row["first"] <= row["last"] for row in ranges):
        raise UserError("The archive has no telemetry of that time: choose --since and --until within it.")
    return ranges


def _folded(
    model: ReadModel, policy: Policy, span: BacktestPeriod, ranges: Iterable[Row]
) -> tuple[IncidentPeriods, int]:
    periods, rows = IncidentPeriods(span), 0
    for partition_range in ranges:
        store = GroupsInMemory()
        shard = Shard(None, store, policy, partition_range["partition"], contains_failures=True)
        wanted = {name: partition_range[name] for name in ("partition", "first", "last")} | {"groups": span.groups}
        for batch in batches(model, _ROWS, wanted):
            for value, stamp in batch:
                rows += 1
                event, size = decoded(value, stamp)
                if event is not None:
                    periods.take_all(shard.push(event, stamp, size))
            shard.timeline.flush()  # memory: a group is smaller as a blob
        periods.take_all(shard.finish())
    return periods, rows


def _reported(model: ReadModel, span: BacktestPeriod) -> IncidentPeriods:
    periods = IncidentPeriods(span)
    for row in model.rows(_REPORTED, {"since": span.since, "until": span.until}):
        periods.take(msgspec.convert(row, IncidentTransition))
    return periods


def _pairs(
    was: list[IncidentPeriod], would_be: list[IncidentPeriod]
) -> list[tuple[IncidentPeriod | None, IncidentPeriod | None]]:
    """Match incidents whose times overlap; each is used once, the earliest first."""
    left = sorted(would_be, key=lambda period: period.opened_at)
    pairs: list[tuple[IncidentPeriod | None, IncidentPeriod | None]] = []
    for reported in sorted(was, key=lambda period: period.opened_at):
        other = next((period for period in left if _overlap(reported, period)), None)
        if other is not None:
            left.remove(other)
        pairs.append((reported, other))
    return pairs + [(None, period) for period in left]


def _overlap(first: IncidentPeriod, other: IncidentPeriod) -> bool:
    ends = (inf if one.resolved_at is None else one.resolved_at for one in (first, other))
    return max(first.opened_at, other.opened_at) <= min(ends)


def _change(was: IncidentPeriod | None, would_be: IncidentPeriod | None) -> Change:
    if was is None:
        return "OPENED"
    return "NOT_OPENED" if would_be is None else "MOVED"


def _warnings(ranges: Iterable[Row], span: BacktestPeriod) -> Iterator[str]:
    late = max(row["begins"] for row in ranges) - (span.since - span.warm_up)
    if late > 0:
        had = max(0, span.warm_up - late) / 60_000
        yield (
            f"The archive begins only {had:.1f} minutes before --since, not {span.warm_up / 60_000:.1f} (--warm-up): "
            "what happened before is not known, so the first incidents may differ for this reason alone."
        )
