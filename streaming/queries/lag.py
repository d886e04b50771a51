"""Query the lag and waiting time of groups over time, from the series of observations."""

from collections.abc import Collection

from streaming.base.statements import statements_of, with_parts
from streaming.queries.group_at import GroupAt
from streaming.queries.group_health import GroupKey
from streaming.queries.observed import OF_GROUPS, counts_for_lag, observed
from streaming.queries.results import LagPoint
from streaming.tables.observations import LOOK_BACK_MS
from streaming.tables.reader import ReadModel

_COLUMNS = ["lag", "lag_is_at_least", "waiting_ms"]
_CONDITION = "p.client_id IS NULL AND p.kind <> 'TOPIC_STATS'"
_SQL = statements_of(__name__)
_OF_GROUP = with_parts(
    _SQL["lag"], observed=observed(_COLUMNS, _CONDITION), counts_for_lag=counts_for_lag("o", "$group")
)  # fmt: skip
_OF_GROUPS = with_parts(
    _SQL["lag"],
    observed=observed(_COLUMNS, _CONDITION, of_groups=OF_GROUPS),
    counts_for_lag=counts_for_lag("o", 'o."group"'),
)
_INTERVALS = 3
"""An observation is ignored after `LOOK_BACK_MS`, or after so many of its intervals if that is longer."""
_LOOK_BACK_MS_MAX = 3_900_000
LagSeries = tuple[int | None, ...]
"""The lag of a group at the end of each slice of a period, the oldest first; None: no lag is known."""


def lag(model: ReadModel, group_at: GroupAt, since: int, until: int, slices: int = 120) -> list[LagPoint]:
    """Return lag and waiting time by topic at the end of each slice of a period, as last observed by then.

    The last slice ends with the period; what is left of it, less than a slice, is at its begin.
    """
    of_group, period = {"cluster": group_at.cluster, "group": group_at.group}, _period(since, until, slices)
    rows = model.rows(_OF_GROUP, {**of_group, **period, "back": _look_back(model, of_group, period)})
    return [LagPoint(**{name: value for name, value in row.items() if name not in of_group}) for row in rows]


def lag_over(
    model: ReadModel, groups: Collection[GroupKey], since: int, until: int, slices: int = 30
) -> dict[GroupKey, LagSeries]:
    """Return the lag of each group at the end of each slice of a period, by all of its topics; all are read at once.

    Args:
        model: the tables.
        groups: cluster and name of each group.
        since: the begin of the period, epoch milliseconds.
        until: its end, epoch milliseconds.
        slices: the number of slices.
    """
    if not groups:
        return {}
    clusters, names = zip(*groups, strict=True)
    period = _period(since, until, slices)
    series: dict[GroupKey, list[int | None]] = {key: [None] * (period["slices"] + 1) for key in groups}
    for row in model.rows(_OF_GROUPS, {"clusters": list(clusters), "groups": list(names), **period}):
        if row["lag"] is not None:
            lags_of, n = series[row["cluster"], row["group"]], (row["time"] - period["since"]) // period["step"]
            lags_of[n] = (lags_of[n] or 0) + row["lag"]
    return {key: tuple(lags) for key, lags in series.items()}


def _period(since: int, until: int, slices: int) -> dict[str, int]:
    step = max(1, (until - since) // slices)
    count = (until - since) // step
    return {"since": until - count * step, "until": until, "step": step, "slices": count, "back": LOOK_BACK_MS}


def _look_back(model: ReadModel, of_group: dict[str, str], period: dict[str, int]) -> int:
    """Return how long an observation of a group counts; more than usual where its intervals are long."""
    parameters = {**of_group, "since": period["since"], "until": period["until"], "back": _LOOK_BACK_MS_MAX}
    [longest] = model.rows(_SQL["longest_interval"], parameters)
    return max(LOOK_BACK_MS, min(_LOOK_BACK_MS_MAX, _INTERVALS * (longest["interval_ms"] or 0)))
