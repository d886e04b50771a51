"""Query the lag and waiting time of a group's topics over time, from the series of observations."""

from collections.abc import Iterator

from streaming.queries.group_at import GroupAt
from streaming.queries.results import LagPoint
from streaming.tables.observations import LEVELS, RAW, day, in_duckdb, rank
from streaming.tables.reader import ReadModel

_OF = f"""
{{0}}.cluster = $cluster AND {{0}}.group = $group AND {{0}}.client_id IS NULL
    AND {{0}}.time > from_ms($since - $back) AND {{0}}.time <= from_ms($until + {{1}})
    AND {{0}}.date BETWEEN {day("$since - $back")} AND {day("$until + 300000")}
"""
"""The rows of a table, by its alias, that a period needs; an aggregated row has the end of its time, at most 5 minutes
later."""
_LAST_OF_SLICES = f"""
(
    SELECT p.*
    FROM queue_progress p
    SEMI JOIN (
        SELECT k.broker, k.source, k.kind, max(k.time) AS last_time
        FROM queue_progress k
        WHERE {_OF.format("k", 0)}
        GROUP BY
            k.broker, k.source, k.kind, hash(k.topic), hash(k.queue_id),
            greatest(0, ceil((epoch_ms(k.time) - $since) / $step))
    ) l
        ON l.broker = p.broker AND l.source = p.source AND l.kind = p.kind AND l.last_time = p.time
    WHERE {_OF.format("p", 0)}
)
"""  # noqa: S608  parts of ours
"""The last response of each kind about the same queues in each slice, which is valid at its end."""


def _seen() -> Iterator[str]:
    for table, level in LEVELS.items():
        aggregated = f"(SELECT p.* FROM {table} p WHERE {_OF.format('p', 300_000)})"  # noqa: S608  parts of ours
        rows = _LAST_OF_SLICES if level == RAW else aggregated
        yield in_duckdb(table, rows, ["lag", "lag_is_at_least", "waiting_ms"])


_OBSERVED = "{{'time': s.time, 'until': s.time + 2 * s.interval_ms, 'value': s.{0}}}"
"""A quantity, the time of its observation, and the time at which it becomes stale.

A rolled-up row may stand beside the answer that it was made of: ``rank`` rises with the time and with the resolution of
the table, so the answer counts.
"""
_LAG = f"""
WITH seen AS MATERIALIZED (
    SELECT
        o.topic, o.broker, o.queue_id, epoch_ms(o.time) AS time, {rank("o")} AS rank,
        o.lag, o.lag_is_at_least, o.waiting_ms, o.kind, o.interval_ms
    FROM ({" UNION ALL ".join(_seen())}) o
    WHERE o.time > from_ms($since - $back) AND o.time <= from_ms($until) AND NOT starts_with(o.topic, '%RETRY%')
),
queues AS (
    SELECT
        row_number() OVER () AS id, s.topic, s.broker, s.queue_id, min(s.time) AS first, max(s.time) AS last
    FROM seen s
    GROUP BY s.topic, s.broker, s.queue_id
),
observed AS (
    SELECT
        q.id, greatest(0, CAST(ceil((s.time - $since) / $step) AS BIGINT)) AS slice,
        max_by({_OBSERVED.format("lag")}, s.rank)
            FILTER (WHERE s.lag IS NOT NULL AND NOT coalesce(s.lag_is_at_least, false)) AS exact,
        max_by({_OBSERVED.format("lag")}, s.rank) FILTER (WHERE s.lag IS NOT NULL AND s.lag_is_at_least) AS bound,
        max_by({_OBSERVED.format("waiting_ms")}, s.rank)
            FILTER (WHERE s.waiting_ms IS NOT NULL AND s.kind = 'CONSUME_TIME_SPAN') AS span,
        max_by({_OBSERVED.format("waiting_ms")}, s.rank)
            FILTER (WHERE s.waiting_ms IS NOT NULL AND s.kind <> 'CONSUME_TIME_SPAN') AS wait
    FROM seen s
    JOIN queues q ON q.topic = s.topic AND q.broker = s.broker AND q.queue_id = s.queue_id
    GROUP BY ALL
),
moments AS (
    SELECT r.range AS slice, $since + r.range * $step AS time, q.id, q.topic
    FROM range(0, $slices + 1) r
    JOIN queues q ON $since + r.range * $step BETWEEN q.first AND q.last + $back
),
held AS (
    SELECT
        m.time, m.topic,
        last_value(t.exact IGNORE NULLS) OVER so_far AS exact,
        last_value(t.bound IGNORE NULLS) OVER so_far AS bound,
        last_value(t.span IGNORE NULLS) OVER so_far AS span,
        last_value(t.wait IGNORE NULLS) OVER so_far AS wait
    FROM moments m
    LEFT JOIN observed t ON t.id = m.id AND t.slice = m.slice
    WINDOW so_far AS (PARTITION BY m.id ORDER BY m.slice ROWS UNBOUNDED PRECEDING)
),
fresh AS (
    SELECT
        h.time, h.topic,
        coalesce(
            CASE WHEN h.time <= h.exact.until THEN h.exact.value END,
            CASE WHEN h.time <= h.bound.until AND (h.exact IS NULL OR h.bound.time > h.exact.time)
                THEN h.bound.value END
        ) AS lag,
        coalesce(
            CASE WHEN h.time <= h.span.until THEN h.span.value END,
            CASE WHEN h.time <= h.wait.until THEN h.wait.value END
        ) AS waiting_ms
    FROM held h
)
SELECT
    f.time, f.topic,
    CAST(sum(f.lag) AS BIGINT) AS lag,
    count(*) FILTER (f.lag IS NULL) AS lag_unknown,
    max(f.waiting_ms) AS waiting_ms
FROM fresh f
GROUP BY f.time, f.topic
ORDER BY f.time, f.topic
"""  # noqa: S608  parts of ours

_LOOK_BACK_MS = 900_000
"""As in `progress_at`: an older observation is ignored, not stale."""


def lag(model: ReadModel, of: GroupAt, since: int, until: int, slices: int = 120) -> list[LagPoint]:
    """Return lag and waiting time by topic at the end of each slice of a period, as last observed by then."""
    step = max(1, (until - since) // slices)
    wanted = {
        "cluster": of.cluster,
        "group": of.group,
        "since": since,
        "until": until,
        "step": step,
        "slices": (until - since) // step,
        "back": _LOOK_BACK_MS,
    }
    return [LagPoint(**row) for row in model.rows(_LAG, wanted)]
