"""Build the SQL for what was observed of a group's queues in a period, at the resolution of its slices."""

from collections.abc import Sequence

from streaming.tables.observations import LEVELS, RAW, day, in_duckdb

_OF = f"""
{{0}}.cluster = $cluster AND {{0}}.group = $group AND {{2}}
    AND {{0}}.time > from_ms($since - $back) AND {{0}}.time <= from_ms($until + {{1}})
    AND {{0}}.date BETWEEN {day("$since - $back")} AND {day("$until + 300000")}
"""
"""The rows of a table, by its alias, that a period needs; an aggregated row has the end of its time, at most 5 minutes
later."""
_LAST_OF_SLICES = """
(
    SELECT p.*
    FROM queue_progress p
    SEMI JOIN (
        SELECT k.broker, k.source, k.kind, coalesce(k.client_id, '') AS client, max(k.time) AS last_time
        FROM queue_progress k
        WHERE {k}
        GROUP BY
            k.broker, k.source, k.kind, coalesce(k.client_id, ''), hash(k.topic), hash(k.queue_id),
            greatest(0, ceil((epoch_ms(k.time) - $since) / $step))
    ) l
        ON l.broker = p.broker AND l.source = p.source AND l.kind = p.kind AND l.client = coalesce(p.client_id, '')
        AND l.last_time = p.time
    WHERE {p}
)
"""
"""The last answer of each kind about the same queues in each slice, which is valid at its end."""


def observed(wanted: Sequence[str], condition: str, topics: str = "") -> str:
    """Return the SELECT of the observations of a period, and of the time ``$back`` before it.

    Its parameters are $cluster, $group, $since, $until, $back and $step (the length of a slice), milliseconds.

    Args:
        wanted: the columns of a queue, beside topic and queue id.
        condition: a condition on the whole rows of `queue_progress`, ``p``.
        topics: only these topics, in SQL: ``$one, $another``; empty: all.
    """
    parts = []
    for table, level in LEVELS.items():
        rows = f"(SELECT p.* FROM {table} p WHERE {_OF.format('p', 300_000, condition)})"  # noqa: S608  parts of ours
        if level == RAW:
            of = {alias: _OF.format(alias, 0, condition.replace("p.", f"{alias}.")) for alias in ("k", "p")}
            rows = _LAST_OF_SLICES.format(**of)
        parts.append(in_duckdb(table, rows, wanted, topics))
    return " UNION ALL ".join(parts)


def counts_for_lag(table: str, group: str) -> str:
    """Return the SQL condition for the queues that count for their group's lag, by the SQL of their table and group.

    The retry topic of a whole group is shown by itself. One of a topic has popped messages that came back: they are of
    the topic's lag, as they were before.
    """
    return (
        f"(NOT starts_with({table}.topic, '%RETRY%') OR starts_with({table}.topic, '%RETRY%' || {group} || '_')"
        f" OR starts_with({table}.topic, '%RETRY%' || {group} || '+'))"
    )
