"""Queries of the rebalances of a group."""

from rebalance_model.entities import INT64_MAX
from streaming.queries.group_at import GroupAt, find_group, instant_of, only_one
from streaming.queries.results import Move, Rebalance, RebalanceTotals
from streaming.tables.reader import ReadModel, Row


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
        "SELECT * FROM rebalances r WHERE r.cluster = $cluster AND r.group = $group"
        " AND r.start_time >= from_ms($since) AND r.start_time <= from_ms($until)"
        " ORDER BY r.start_time DESC, r.seq DESC LIMIT $last",
        {
            "cluster": of.cluster,
            "group": of.group,
            "since": since,
            "until": instant_of(until),
            "last": INT64_MAX if last is None else last,
        },
    )
    return [_rebalance(row) for row in rows]


def rebalance_totals(model: ReadModel, of: GroupAt, since: int = 0, until: int | None = None) -> RebalanceTotals:
    """Return what the rebalances of a group that began within a period have cost together."""
    wanted = {"cluster": of.cluster, "group": of.group, "since": since, "until": instant_of(until)}
    within = """
        FROM rebalances r WHERE r.cluster = $cluster AND r.group = $group
        AND r.start_time >= from_ms($since) AND r.start_time <= from_ms($until)
    """
    [row] = model.rows(
        f"""
        SELECT count(*) AS rebalances, min(r.start_time) AS first, sum(r.pause_ms) AS pause_ms,
            coalesce(bool_or(r.at_most), false) AS pause_is_at_most, coalesce(sum(r.unknown), 0) AS pauses_unknown,
            arg_max(r.rebalance_id, r.pause_ms) AS costliest, max(r.pause_ms) AS costliest_pause_ms
        FROM (
            SELECT r.rebalance_id, r.start_time, list_sum([m.pause_ms FOR m IN r.moves]) AS pause_ms,
                list_bool_or([m.pause_is_at_most FOR m IN r.moves IF m.pause_ms IS NOT NULL]) AS at_most,
                len([m FOR m IN r.moves IF m.pause_ms IS NULL]) AS unknown
            {within}
        ) r
        """,  # noqa: S608  parts of ours
        wanted,
    )
    by_cause = f"SELECT r.trigger, count(*) AS n {within} GROUP BY r.trigger ORDER BY n DESC, r.trigger"
    return RebalanceTotals(**row, by_cause={one["trigger"]: one["n"] for one in model.rows(by_cause, wanted)})


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
    command = f"rebalance-watch group rebalances {of.group}"
    return _rebalance(only_one(found, rebalance_id, "rebalance", command, f" of {of.group}"))


def _rebalance(row: Row) -> Rebalance:
    moves = tuple(
        Move(**move["queue"], **{name: value for name, value in move.items() if name != "queue"})
        for move in row["moves"]
    )
    known = {name: row[name] for name in Rebalance.model_fields}
    return Rebalance(**known | {"moves": moves})
