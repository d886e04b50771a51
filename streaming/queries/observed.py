"""Build the SQL for what was observed of a group's queues in a period, at the resolution of its slices."""

from collections.abc import Sequence

from streaming.base.statements import statements_of, with_parts
from streaming.tables.observations import LEVELS, RAW, in_duckdb, rank

_SQL = statements_of(__name__)
_LATER_MS = 300_000
"""An aggregated row has the end of its time, which is at most so much later."""
_OF_GROUP = "{row}.cluster = $cluster AND {row}.group = $group"
OF_GROUPS = "({row}.cluster, {row}.group) IN (SELECT (unnest($clusters), unnest($groups)))"
"""The condition for the rows of many groups, with the parameters $clusters and $groups; ``{row}`` is their alias."""


def observed(columns: Sequence[str], condition: str, topics: str = "", of_groups: str = _OF_GROUP) -> str:
    """Return the SELECT of the observations of a period, and of the time ``$back`` before it, each with its rank.

    It is built, since the arrays that are unnested are only those of the columns that a question needs. Its parameters
    are $cluster, $group, $since, $until, $back and $step (the length of a slice), milliseconds.

    Args:
        columns: the columns of a queue, beside topic and queue id.
        condition: a condition on the whole rows of `queue_progress`, ``p``.
        topics: only these topics, in SQL: ``$one, $another``; empty: all.
        of_groups: the condition for the rows of the group, or `OF_GROUPS`.
    """
    parts = []
    for table, level in LEVELS.items():
        if level == RAW:
            of_answers, of_rows = (_period(row, 0, condition.replace("p.", f"{row}."), of_groups) for row in ("k", "p"))
            rows = with_parts(_SQL["last_of_slices"], period_k=of_answers, period_p=of_rows)
        else:
            rows = with_parts(_SQL["rows"], table=table, period=_period("p", _LATER_MS, condition, of_groups))
        parts.append(in_duckdb(table, rows, columns, topics))
    return with_parts(_SQL["ranked"], rank=rank("u"), levels=" UNION ALL ".join(parts))


def _period(row: str, later_ms: int, condition: str, of_groups: str) -> str:
    return with_parts(_SQL["period"], of_groups=of_groups, row=row, later_ms=str(later_ms), condition=condition)


def counts_for_lag(row: str, group: str) -> str:
    """Return the condition for the queues that count for their group's lag, by the SQL of their row and group."""
    return with_parts(_SQL["counts_for_lag"], row=row, group=group)
