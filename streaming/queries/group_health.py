"""The health of groups over a period, in slices of equal length: the worst of each slice."""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby, pairwise

from streaming.base.statements import statements_of
from streaming.queries.health import HEALTH, Health
from streaming.queries.present import STATE_MISSED, UNHEARD_AFTER, snapshot_interval_ms
from streaming.tables.reader import ReadModel, Row

_SQL = statements_of(__name__)

SLICES = 30
"""The number of slices of a period."""

GroupKey = tuple[str, str]
"""Cluster and name of a group."""
_Span = tuple[int, int]
"""Begin and end, epoch milliseconds."""


def health_over(
    model: ReadModel, groups: Collection[GroupKey], since: int, until: int
) -> dict[GroupKey, tuple[Health, ...]]:
    """Return the worst health of each group in each of `SLICES` slices of a period, the oldest first.

    A slice is UNKNOWN, unless it is worse, if for a part of it the group had no row yet, its last one was too old, or
    its cluster's telemetry had stopped: nothing is carried on that nobody reported. All groups are read at once.

    Args:
        model: the tables.
        groups: cluster and name of each group.
        since: the begin of the period, epoch milliseconds.
        until: its end, epoch milliseconds.
    """
    if not groups:
        return {}
    valid_ms = STATE_MISSED * snapshot_interval_ms(model)
    clusters, names = zip(*groups, strict=True)
    period = {"clusters": list(clusters), "since": since, "until": until, "back": valid_ms}
    states = {
        key: list(rows)
        for key, rows in groupby(
            model.rows(_SQL["states"], {**period, "groups": list(names)}), lambda row: (row["cluster"], row["group"])
        )
    }
    heard = {
        cluster: list(rows)
        for cluster, rows in groupby(model.rows(_SQL["heard"], period), lambda row: str(row["cluster"]))
    }
    silent = {cluster: _silences(heard.get(cluster, []), since, until, valid_ms) for cluster in set(clusters)}
    return {key: _slices(states.get(key, []), silent[key[0]], (since, until), valid_ms) for key in groups}


def _silences(heard: Sequence[Row], since: int, until: int, valid_ms: int) -> list[_Span]:
    """Return when a cluster was not heard for so long that its telemetry had stopped, as `present.last_heard` judges.

    Where no source was heard just before, rows of state alone show that telemetry continues.
    """
    reports = [(since - valid_ms,) * 2, *((row["first"], row["last"]) for row in heard), (until,) * 2]
    sources = [row["last"] for row in heard if row["is_source"]]
    silences = []
    for (_, before), (after, _) in pairwise(reports):
        if after - before >= UNHEARD_AFTER:
            has_source = any(before - UNHEARD_AFTER < time <= before for time in sources)
            if has_source or after - before >= valid_ms:
                silences.append((before, after))
    return silences


def _slices(states: Sequence[Row], silences: Sequence[_Span], period: _Span, valid_ms: int) -> tuple[Health, ...]:
    """Return the worst health of each slice of a period."""
    since, until = period
    worst: list[Health | None] = [None] * SLICES
    for begin, end, health in _known(states, silences, period, valid_ms):
        for n in range((begin - since) * SLICES // (until - since), -((since - end) * SLICES // (until - since))):
            before = worst[n]
            if before is None or HEALTH[health].rank < HEALTH[before].rank:
                worst[n] = health
    return tuple(health or "UNKNOWN" for health in worst)


def _known(
    states: Sequence[Row], silences: Sequence[_Span], period: _Span, valid_ms: int
) -> Iterator[tuple[int, int, Health]]:
    """Yield begin, end and health of each part of a period; parts of which nothing is known are UNKNOWN."""
    since, until = period
    reported_until = since
    for state, following in zip(states, [*(row["time"] for row in states[1:]), until], strict=False):  # may be none
        begin, end = max(state["time"], since), min(following, state["time"] + valid_ms, until)
        if begin >= end:
            continue
        if begin > reported_until:
            yield reported_until, begin, "UNKNOWN"
        for part in _without((begin, end), silences):
            yield *part, state["health"]
        reported_until = end
    if reported_until < until:
        yield reported_until, until, "UNKNOWN"
    for silence in silences:
        if silence[1] > since:
            yield max(silence[0], since), min(silence[1], until), "UNKNOWN"


def _without(span: _Span, silences: Sequence[_Span]) -> Iterator[_Span]:
    """Yield the parts of a span that are in no silence."""
    begin, end = span
    for silence in silences:
        if silence[0] < end and silence[1] > begin:
            if begin < silence[0]:
                yield begin, silence[0]
            begin = silence[1]
    if begin < end:
        yield begin, end
