"""Queries of the rebalances of a group."""

from rebalance_model.entities import INT64_MAX
from streaming.base.shell import command_line, group_argument
from streaming.queries.group_at import GroupAt, find_group, instant_of, only_one
from streaming.queries.results import Move, Rebalance, RebalanceTotals
from streaming.tables.reader import ReadModel, Row

_IN_PERIOD = """
FROM rebalances r WHERE r.cluster = $cluster AND r.group = $group
    AND r.start_time >= from_ms($since) AND r.start_time <= from_ms($until)
"""
_COSTS = f"""
SELECT r.rebalance_id, r.start_time, r.trigger, list_sum([m.pause_ms FOR m IN r.moves]) AS pause_ms,
    list_bool_or([m.pause_is_at_most FOR m IN r.moves IF m.pause_ms IS NOT NULL]) AS at_most,
    len([m FOR m IN r.moves IF m.pause_ms IS NULL]) AS unknown
{_IN_PERIOD}
"""


def rebalances(  # noqa: PLR0913  filters
    model: ReadModel,
    group: str,
    *,
    cluster: str | None = None,
    since: int = 0,
    until: int | None = None,
    last: int | None = None,
) -> list[Rebalance]:
    """List the rebalances that began within a period, newest first, at most ``last``.

    Raises:
        UserError: see `find_group`.
    """
    return rebalances_of(model, find_group(model, group, cluster), since, until, last)


def rebalances_of(
    model: ReadModel, of: GroupAt, since: int = 0, until: int | None = None, last: int | None = None
) -> list[Rebalance]:
    """List the rebalances of a group; see `rebalances`."""
    rows = model.rows(
        f"SELECT * {_IN_PERIOD} ORDER BY r.start_time DESC, r.seq DESC LIMIT $last",
        _period(of, since, until) | {"last": INT64_MAX if last is None else last},
    )
    return [_rebalance(row) for row in rows]


def rebalance_totals(model: ReadModel, of: GroupAt, since: int = 0, until: int | None = None) -> RebalanceTotals:
    """Return what the rebalances of a group that began within a period have cost together."""
    [row] = model.rows(
        f"""
        SELECT count(*) AS rebalances, min(r.start_time) AS first, sum(r.pause_ms) AS pause_ms,
            coalesce(bool_or(r.at_most), false) AS pause_is_at_most, coalesce(sum(r.unknown), 0) AS pauses_unknown,
            arg_max(r.rebalance_id, r.pause_ms) AS costliest, max(r.pause_ms) AS costliest_pause_ms
        FROM ({_COSTS}) r
        """,  # noqa: S608  parts of ours
        _period(of, since, until),
    )
    causes = model.rows(
        f"""
        SELECT r.trigger, count(*) AS rebalances, CAST(sum(r.pause_ms) AS BIGINT) AS pause_ms FROM ({_COSTS}) r
        GROUP BY r.trigger ORDER BY rebalances DESC, r.trigger
        """,  # noqa: S608  parts of ours
        _period(of, since, until),
    )
    by_cause = {one["trigger"]: one["rebalances"] for one in causes}
    pauses = {one["trigger"]: one["pause_ms"] for one in causes}
    return RebalanceTotals(**row | {"by_cause": by_cause, "pause_by_cause": pauses})


def _period(of: GroupAt, since: int, until: int | None) -> dict[str, object]:
    return {"cluster": of.cluster, "group": of.group, "since": since, "until": instant_of(until)}


def rebalance(model: ReadModel, group: str, rebalance_id: str, cluster: str | None = None) -> Rebalance:
    """Return one rebalance by its id or a unique prefix of it.

    Raises:
        NotFoundError: the group has no such rebalance.
        UserError: the prefix is not unique; or see `find_group`.
    """
    of = find_group(model, group, cluster)
    found = model.rows(
        "SELECT * FROM rebalances r WHERE r.cluster = $cluster AND r.group = $group"
        " AND starts_with(r.rebalance_id, $id)",
        {"cluster": of.cluster, "group": of.group, "id": rebalance_id},
    )
    command = command_line("rebalance-watch", "group", "rebalances", *group_argument(of.group))
    return _rebalance(only_one(found, rebalance_id, "rebalance", command, of.group))


def _rebalance(row: Row) -> Rebalance:
    moves = tuple(
        Move(**move["queue"], **{name: value for name, value in move.items() if name != "queue"})
        for move in row["moves"]
    )
    known = {name: row[name] for name in Rebalance.model_fields}
    return Rebalance(**known | {"moves": moves})
