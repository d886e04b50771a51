"""Queries of the rebalances of a group."""

from rebalance_model.entities import INT64_MAX
from streaming.base.statements import statements_of, with_parts
from streaming.base.terminal import command_line, group_argument
from streaming.queries.group_at import GroupAt, instant_of, only_one
from streaming.queries.results import Rebalance, RebalanceMove, RebalanceTotals
from streaming.tables.reader import ReadModel, Row

_SQL = statements_of(__name__)
_TOTALS, _TOTALS_BY_CAUSE = (with_parts(_SQL[name], costs=_SQL["costs"]) for name in ("totals", "totals_by_cause"))


def rebalances(
    model: ReadModel, group_at: GroupAt, since: int = 0, until: int | None = None, last: int | None = None
) -> list[Rebalance]:
    """List the rebalances of a group that began within a period, newest first, at most ``last``."""
    parameters = _period(group_at, since, until) | {"last": INT64_MAX if last is None else last}
    return [_rebalance(row) for row in model.rows(_SQL["rebalances"], parameters)]


def rebalance_totals(model: ReadModel, group_at: GroupAt, since: int = 0, until: int | None = None) -> RebalanceTotals:
    """Return what the rebalances of a group that began within a period have cost together."""
    period = _period(group_at, since, until)
    [totals] = model.rows(_TOTALS, period)
    causes = model.rows(_TOTALS_BY_CAUSE, period)
    by_cause = {row["trigger"]: row["rebalances"] for row in causes}
    pauses = {row["trigger"]: row["pause_ms"] for row in causes}
    return RebalanceTotals(**totals | {"by_cause": by_cause, "pause_by_cause": pauses})


def _period(group_at: GroupAt, since: int, until: int | None) -> dict[str, object]:
    return {"cluster": group_at.cluster, "group": group_at.group, "since": since, "until": instant_of(until)}


def rebalance(model: ReadModel, group_at: GroupAt, rebalance_id: str) -> Rebalance:
    """Return one rebalance of a group by its id or a unique prefix of it.

    Raises:
        NotFoundError: the group has no such rebalance.
        UserError: the prefix is not unique.
    """
    group = group_at.group
    rows = model.rows(_SQL["by_id"], {"cluster": group_at.cluster, "group": group, "id": rebalance_id})
    command = command_line("rebalance-watch", "group", "rebalances", *group_argument(group))
    return _rebalance(only_one(rows, rebalance_id, "rebalance", command, group))


def _rebalance(row: Row) -> Rebalance:
    moves = tuple(
        RebalanceMove(**move["queue"], **{name: value for name, value in move.items() if name != "queue"})
        for move in row["moves"]
    )
    columns = {name: row[name] for name in Rebalance.model_fields}
    return Rebalance(**columns | {"moves": moves})
