"""Query the lag and waiting time of a group's topics over time, from the series of observations."""

from streaming.base.statements import statements_of, with_parts
from streaming.queries.group_at import GroupAt
from streaming.queries.observed import counts_for_lag, observed
from streaming.queries.results import LagPoint
from streaming.tables.observations import LOOK_BACK_MS
from streaming.tables.reader import ReadModel

_LAG = with_parts(
    statements_of(__name__)["lag"],
    observed=observed(["lag", "lag_is_at_least", "waiting_ms"], "p.client_id IS NULL AND p.kind <> 'TOPIC_STATS'"),
    counts_for_lag=counts_for_lag("o", "$group"),
)


def lag(model: ReadModel, group_at: GroupAt, since: int, until: int, slices: int = 120) -> list[LagPoint]:
    """Return lag and waiting time by topic at the end of each slice of a period, as last observed by then."""
    step = max(1, (until - since) // slices)
    parameters = {
        "cluster": group_at.cluster,
        "group": group_at.group,
        "since": since,
        "until": until,
        "step": step,
        "slices": (until - since) // step,
        "back": LOOK_BACK_MS,
    }
    return [LagPoint(**row) for row in model.rows(_LAG, parameters)]
