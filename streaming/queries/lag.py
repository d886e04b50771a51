"""Query the lag and waiting time of a group's topics over time, from the series of observations."""

from streaming.base.statements import statements_of, with_parts
from streaming.queries.group_at import GroupAt
from streaming.queries.observed import counts_for_lag, observed
from streaming.queries.results import LagPoint
from streaming.tables.observations import LOOK_BACK_MS
from streaming.tables.reader import ReadModel

_SQL = statements_of(__name__)
_LAG = with_parts(
    _SQL["lag"],
    observed=observed(["lag", "lag_is_at_least", "waiting_ms"], "p.client_id IS NULL AND p.kind <> 'TOPIC_STATS'"),
    counts_for_lag=counts_for_lag("o", "$group"),
)
_INTERVALS = 3
"""An observation is ignored after `LOOK_BACK_MS`, or after so many of its intervals if that is longer."""
_LOOK_BACK_MS_MAX = 3_900_000


def lag(model: ReadModel, group_at: GroupAt, since: int, until: int, slices: int = 120) -> list[LagPoint]:
    """Return lag and waiting time by topic at the end of each slice of a period, as last observed by then.

    The last slice ends with the period; what is left of it, less than a slice, is at its begin.
    """
    step = max(1, (until - since) // slices)
    count = (until - since) // step
    parameters = {
        "cluster": group_at.cluster,
        "group": group_at.group,
        "since": until - count * step,
        "until": until,
        "back": _LOOK_BACK_MS_MAX,
    }
    [longest] = model.rows(_SQL["longest_interval"], parameters)
    back = max(LOOK_BACK_MS, min(_LOOK_BACK_MS_MAX, _INTERVALS * (longest["interval_ms"] or 0)))
    parameters |= {"step": step, "slices": count, "back": back}
    return [LagPoint(**row) for row in model.rows(_LAG, parameters)]
