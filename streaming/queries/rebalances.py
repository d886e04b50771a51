"""The rebalances of a group: why, who, what it cost."""

from rebalance_model.entities import INT64_MAX
from streaming.queries.answers import Move, Rebalance
from streaming.queries.subject import Subject, instant_of, only_one, subject
from streaming.read_model.reader import ReadModel, Row


def rebalances(  # noqa: PLR0913  filters
    model: ReadModel,
    group: str,
    *,
    cluster: str | None = None,
    since: int = 0,
    until: int | None = None,
    last: int | None = None,
) -> list[Rebalance]:
    """Those that began within a span, newest first; with ``last`` only so many.

    Raises:
        UserError: see `subject`.
    """
    return rebalances_of(model, subject(model, group, cluster), since, until, last)


def rebalances_of(
    model: ReadModel, of: Subject, since: int = 0, until: int | None = None, last: int | None = None
) -> list[Rebalance]:
    """The rebalances of the group that was found."""
    told = model.rows(
        "SELECT * FROM rebalances r WHERE r.cluster = $cluster AND r.group = $group"
        " AND r.start_time >= $since AND r.start_time <= $until ORDER BY r.start_time DESC, r.seq DESC LIMIT $last",
        {
            "cluster": of.cluster,
            "group": of.group,
            "since": since,
            "until": instant_of(until),
            "last": INT64_MAX if last is None else last,
        },
    )
    return [_rebalance(row) for row in told]


def rebalance(model: ReadModel, group: str, rebalance_id: str, cluster: str | None = None) -> Rebalance:
    """One rebalance, by its id or a beginning of it that fits no other.

    Raises:
        NotFoundError: no rebalance of the group has that id.
        UserError: several have; or see `subject`.
    """
    of = subject(model, group, cluster)
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
