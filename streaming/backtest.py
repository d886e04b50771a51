"""The past under another policy: the archived telemetry through the same shards, and what would have been told.

Rows of `telemetry` are folded in (partition, offset) order, in plain Python, so the rules are the very ones of the
job; the job's tables are read and nothing is written. What was told then is in `anomalies`. Incidents of one code and
subject whose lives overlap are one incident; of each it is compared when it opened and resolved within the span, its
worst severity and its last sub-cause.

The observer begins without state, some time before the span (the warm-up): what had been going on for longer than that
it can't know.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from rebalance_model.observe.decoding import RejectedError, decode
from rebalance_model.observe.effects import AnyRow, IncidentTransition
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from streaming.errors import UserError
from streaming.read_model import ReadModel
from streaming.read_model.reader import Row

Change = Literal["OPENED", "NOT_OPENED", "MOVED"]
Subject = tuple[str, str, str, str]
"""Cluster, group, code, subject."""

_RANK = {"info": 0, "warning": 1, "critical": 2}


@dataclass(frozen=True)
class Span:
    """What is compared: both ends are epoch milliseconds, and belong to it."""

    since: int
    until: int
    warm_up: int
    """So long before it the observer begins; milliseconds."""
    groups: str = "*"
    """A glob of group names."""


class Life(msgspec.Struct, frozen=True):
    """One incident within the span; times are epoch milliseconds."""

    opened_at: int
    """The span's begin where it opened before."""
    resolved_at: int | None
    """None: it was open at the span's end."""
    severity: str
    """The worst."""
    sub_cause: str
    """The last."""


class Difference(msgspec.Struct, frozen=True):
    """One incident that the other policy would have told otherwise."""

    change: Change
    cluster: str
    group: str
    code: str
    subject: str
    was: Life | None
    """What was told; None: nothing."""
    would_be: Life | None
    """What would have been told; None: nothing."""


class Result(msgspec.Struct, frozen=True):
    """What a backtest found."""

    since: int
    until: int
    rows: int
    """Archived rows that were folded, the warm-up's included."""
    same: int
    """Incidents that are the same under both policies."""
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...]


@dataclass
class Lives:
    """Incidents put together from their transitions, which come in the order of each group's rows."""

    span: Span
    of: dict[Subject, dict[str, Life]] = field(default_factory=dict)

    def take_all(self, effects: Iterable[AnyRow]) -> None:
        """Note the transitions among them."""
        for effect in effects:
            if isinstance(effect, IncidentTransition):
                self.take(effect)

    def take(self, told: IncidentTransition) -> None:
        """Note one transition."""
        if told.time > self.span.until or not fnmatchcase(told.group, self.span.groups):
            return
        lives = self.of.setdefault((told.cluster, told.group, told.code, told.subject), {})
        known = lives.get(told.incident_id)
        worst = max(known.severity if known else told.severity, told.severity, key=_RANK.__getitem__)
        ended = told.time if told.transition == "RESOLVED" else None
        if ended is not None and ended < self.span.since:
            lives.pop(told.incident_id, None)
        else:
            lives[told.incident_id] = Life(max(told.opened_at, self.span.since), ended, worst, told.sub_cause)


def backtest(model: ReadModel, policy: Policy, span: Span) -> Result:
    """Fold the span's telemetry under the policy, and compare with what was told.

    Raises:
        UserError: nothing of the span is archived.
    """
    ranges = _ranges(model, span)
    would_be, rows = _folded(model, policy, span, ranges)
    was = _told(model, span)
    same, differences = 0, []
    for subject in sorted(was.of.keys() | would_be.of.keys()):
        pairs = _pairs(list(was.of.get(subject, {}).values()), list(would_be.of.get(subject, {}).values()))
        same += sum(before == after for before, after in pairs)
        differences += [Difference(_change(*pair), *subject, *pair) for pair in pairs if pair[0] != pair[1]]
    differences.sort(key=lambda d: min(life.opened_at for life in (d.was, d.would_be) if life is not None))
    return Result(span.since, span.until, rows, same, tuple(differences), tuple(_warnings(ranges, span)))


def last_time(model: ReadModel) -> int | None:
    """The time of the last archived row, by the clock that groups live by; None: nothing is archived."""
    last: int | None = model.rows(f"SELECT max(t.time) AS last FROM telemetry t WHERE {_LEADING}")[0]["last"]  # noqa: S608  ours
    return last


_LEADING = "t.source <> 'hook' OR NOT EXISTS (SELECT 1 FROM telemetry o WHERE o.source <> 'hook')"
"""Rows whose clock dates the rows of groups: the collectors' where there are any. A hook's may be hours off."""

_RANGES = f"""
SELECT
    t.partition,
    min(t.time) AS begins,
    min(t.offset) FILTER (WHERE t.time >= $begin) AS first,
    max(t.offset) FILTER (WHERE t.time <= $until) AS last
FROM telemetry t
WHERE {_LEADING}
GROUP BY t.partition
ORDER BY t.partition
"""  # noqa: S608  nothing of a user's is in it

_ROWS = """
SELECT t.value, t.ingest_time
FROM telemetry t
WHERE t.partition = $partition AND t.offset BETWEEN $first AND $last AND (t.group IS NULL OR t.group GLOB $groups)
ORDER BY t.offset
"""

_TOLD = """
SELECT a.*
FROM anomalies a JOIN incidents i ON i.cluster = a.cluster AND i.group = a.group AND i.incident_id = a.incident_id
WHERE i.opened_at <= $until AND (i.resolved_at IS NULL OR i.resolved_at >= $since) AND a.time <= $until
ORDER BY a.cluster, a.group, a.time, a.seq
"""


def _ranges(model: ReadModel, span: Span) -> list[Row]:
    """Of each partition the offsets to fold, and when its archive begins."""
    found = model.rows(_RANGES, {"begin": span.since - span.warm_up, "until": span.until})
    ranges = [row for row in found if row["first"] is not None and row["last"] is not None]
    if not any(row["first"] <= row["last"] for row in ranges):
        raise UserError("The archive has no telemetry of that time: choose --since and --until within it.")
    return ranges


def _folded(model: ReadModel, policy: Policy, span: Span, ranges: Iterable[Row]) -> tuple[Lives, int]:
    lives, rows = Lives(span), 0
    for one in ranges:
        store = GroupsInMemory()
        shard = Shard(None, store, policy, one["partition"])
        wanted = {name: one[name] for name in ("partition", "first", "last")} | {"groups": span.groups}
        for values in _batches(model, wanted):
            for value, stamp in values:
                rows += 1
                try:
                    event = decode(value.encode(), key=None, stamp=stamp, keyed=False)
                except RejectedError:  # archived by a release that took it
                    continue
                lives.take_all(shard.push(event, stamp, len(value)))
            shard.timeline.flush()  # memory: a group is smaller as a blob
        lives.take_all(shard.finish())
    return lives, rows


def _batches(model: ReadModel, wanted: Mapping[str, object]) -> Iterator[Iterable[tuple[str, int]]]:
    for batch in model.scan(_ROWS, wanted):
        yield zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _told(model: ReadModel, span: Span) -> Lives:
    lives = Lives(span)
    for row in model.rows(_TOLD, {"since": span.since, "until": span.until}):
        lives.take(msgspec.convert(row, IncidentTransition))
    return lives


def _pairs(was: list[Life], would_be: list[Life]) -> list[tuple[Life | None, Life | None]]:
    """Lives that overlap are one incident's; each counts once, the earliest first."""
    left = sorted(would_be, key=lambda life: life.opened_at)
    pairs: list[tuple[Life | None, Life | None]] = []
    for one in sorted(was, key=lambda life: life.opened_at):
        other = next((life for life in left if _overlap(one, life)), None)
        if other is not None:
            left.remove(other)
        pairs.append((one, other))
    return pairs + [(None, life) for life in left]


def _overlap(one: Life, other: Life) -> bool:
    return _begins_within(one, other) or _begins_within(other, one)


def _begins_within(one: Life, other: Life) -> bool:
    return other.opened_at <= one.opened_at and (other.resolved_at is None or one.opened_at <= other.resolved_at)


def _change(was: Life | None, would_be: Life | None) -> Change:
    if was is None:
        return "OPENED"
    return "NOT_OPENED" if would_be is None else "MOVED"


def _warnings(ranges: Iterable[Row], span: Span) -> Iterator[str]:
    late = max(row["begins"] for row in ranges) - (span.since - span.warm_up)
    if late > 0:
        had = max(0, span.warm_up - late) / 60_000
        yield (
            f"The archive begins only {had:.1f} minutes before --since, the warm-up wants {span.warm_up / 60_000:.1f}: "
            "what was going on before is not known, so the first incidents may differ for that alone."
        )
