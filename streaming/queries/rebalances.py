"""The rebalances of a group: why, who, what it cost."""

from streaming.queries.answers import Move, Rebalance
from streaming.queries.subject import Subject, instant_of, subject
from streaming.read_model.reader import ReadModel, Row


def rebalances(
    model: ReadModel, group: str, *, cluster: str | None = None, since: int = 0, until: int | None = None
) -> list[Rebalance]:
    """Those that began within a span, newest first.

    Raises:
        UserError: see `subject`.
    """
    return rebalances_of(model, subject(model, group, cluster), since, until)


def rebalances_of(model: ReadModel, of: Subject, since: int = 0, until: int | None = None) -> list[Rebalance]:
    """The rebalances of the group that was found."""
    told = model.rows(
        "SELECT * FROM rebalances r WHERE r.cluster = $cluster AND r.group = $group"
        " AND r.start_time >= $since AND r.start_time <= $until ORDER BY r.start_time DESC, r.seq DESC",
        {"cluster": of.cluster, "group": of.group, "since": since, "until": instant_of(until)},
    )
    return [_rebalance(row) for row in told]


def _rebalance(row: Row) -> Rebalance:
    moves = tuple(
        Move(**move["queue"], **{name: value for name, value in move.items() if name != "queue"})
        for move in row["moves"]
    )
    known = {name: row[name] for name in Rebalance.model_fields}
    return Rebalance(**known | {"moves": moves})
