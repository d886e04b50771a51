"""Query the lag and waiting time of a group's topics over time, from the series of observations."""

from streaming.queries.group_at import GroupAt
from streaming.queries.observed import counts_for_lag, observed
from streaming.queries.results import LagPoint
from streaming.tables.observations import LOOK_BACK_MS, rank
from streaming.tables.reader import ReadModel

_LAG = f"""
WITH seen AS MATERIALIZED (
    SELECT
        o.topic, o.broker, o.queue_id, epoch_ms(o.time) AS time, {rank("o")} AS rank,
        o.lag, o.waiting_ms, o.interval_ms,
        o.lag IS NOT NULL AND NOT coalesce(o.lag_is_at_least, false) AS is_exact,
        o.lag IS NOT NULL AND coalesce(o.lag_is_at_least, false) AS is_bound,
        o.waiting_ms IS NOT NULL AND o.kind = 'CONSUME_TIME_SPAN' AS is_span,
        o.waiting_ms IS NOT NULL AND o.kind <> 'CONSUME_TIME_SPAN' AS is_wait
    FROM ({observed(["lag", "lag_is_at_least", "waiting_ms"], "p.client_id IS NULL AND p.kind <> 'TOPIC_STATS'")}) o
    WHERE o.time > from_ms($since - $back) AND o.time <= from_ms($until) AND {counts_for_lag("o", "$group")}
),
existing AS (
    SELECT r.range AS slice, q.topic, count(*) AS queues
    FROM range(0, $slices + 1) r
    JOIN (
        SELECT s.topic, min(s.time) AS first, max(s.time) AS last FROM seen s GROUP BY s.topic, s.broker, s.queue_id
    ) q ON $since + r.range * $step BETWEEN q.first AND q.last + $back
    GROUP BY ALL
),
held AS (
    SELECT
        s.*, $since + s.slice * $step <= s.time + 2 * s.interval_ms AS is_fresh
    FROM (
        SELECT
            t.*,
            unnest(range(
                greatest(0, CAST(ceil((t.time - $since) / $step) AS BIGINT)),
                1 + least($slices, (t.time + 2 * greatest(
                    t.interval_ms, CASE WHEN t.is_exact THEN b.interval_ms END
                ) - $since) // $step)
            )) AS slice
        FROM seen t, (SELECT max(c.interval_ms) AS interval_ms FROM seen c WHERE c.is_bound) b
    ) s
),
last AS (
    SELECT
        h.slice, h.topic,
        coalesce(
            max_by(h.lag, h.rank) FILTER (h.is_exact AND h.is_fresh),
            CASE WHEN coalesce(max(h.rank) FILTER (h.is_exact) < max(h.rank) FILTER (h.is_bound), true)
                THEN max_by(h.lag, h.rank) FILTER (h.is_bound) END
        ) AS lag,
        count(*) FILTER (h.is_exact AND h.is_fresh) = 0 AS is_bound,
        coalesce(
            max_by(h.waiting_ms, h.rank) FILTER (h.is_span AND h.is_fresh),
            max_by(h.waiting_ms, h.rank) FILTER (h.is_wait AND h.is_fresh)
        ) AS waiting_ms
    FROM held h
    GROUP BY h.slice, h.topic, h.broker, h.queue_id
),
known AS (
    SELECT
        l.slice, l.topic, CAST(sum(l.lag) AS BIGINT) AS lag, count(l.lag) AS queues, max(l.waiting_ms) AS waiting_ms,
        count(l.lag) FILTER (l.is_bound) > 0 AS lag_is_at_least
    FROM last l
    GROUP BY l.slice, l.topic
)
SELECT
    $since + e.slice * $step AS time, e.topic, k.lag, coalesce(k.lag_is_at_least, false) AS lag_is_at_least,
    e.queues - coalesce(k.queues, 0) AS lag_unknown, k.waiting_ms
FROM existing e
LEFT JOIN known k ON k.slice = e.slice AND k.topic = e.topic
ORDER BY e.slice, e.topic
"""  # noqa: S608  parts of ours
"""An observation holds at the ends of slices until it is stale; of those of one queue the newest counts.

``rank`` rises with the time and with the resolution of the table: a rolled-up row may stand beside the answer that it
was made of. An exact lag holds as long as a bound, but only to discard bounds that are older.
"""


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
        "back": LOOK_BACK_MS,
    }
    return [LagPoint(**row) for row in model.rows(_LAG, wanted)]
