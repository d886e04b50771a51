"""How the lag of a group's topics went, and how long their messages waited: from the series of quantities."""

from streaming.queries.answers import LagPoint
from streaming.queries.subject import Subject
from streaming.read_model.reader import ReadModel

_LAG = """
WITH seen AS (
    SELECT
        o.topic, o.broker, o.queue_id, o.time, o.lag, o.lag_is_at_least, o.waiting_ms, o.kind,
        min(o.interval_ms) AS interval_ms
    FROM queue_observations o
    WHERE o.cluster = $cluster AND o.group = $group AND o.time > $since - $back AND o.time <= $until
        AND o.row_time > $since - $back AND o.row_time <= $until + 300000
        AND o.client_id IS NULL AND NOT starts_with(o.topic, '%RETRY%')
    GROUP BY ALL
),
ends AS (SELECT $since + r.range * $step AS time FROM range(0, $slices + 1) r),
lives AS (SELECT s.topic, s.broker, s.queue_id, min(s.time) AS first, max(s.time) AS last FROM seen s GROUP BY ALL),
moments AS (
    SELECT e.time, l.topic, l.broker, l.queue_id FROM ends e JOIN lives l
    ON e.time >= l.first AND e.time <= l.last + $back
),
exact AS (SELECT s.* FROM seen s WHERE s.lag IS NOT NULL AND NOT coalesce(s.lag_is_at_least, false)),
bounds AS (SELECT s.* FROM seen s WHERE s.lag IS NOT NULL AND s.lag_is_at_least),
spans AS (SELECT s.* FROM seen s WHERE s.waiting_ms IS NOT NULL AND s.kind = 'CONSUME_TIME_SPAN'),
waits AS (SELECT s.* FROM seen s WHERE s.waiting_ms IS NOT NULL AND s.kind <> 'CONSUME_TIME_SPAN'),
held AS (
    SELECT
        m.time, m.topic,
        coalesce(
            CASE WHEN m.time - x.time <= 2 * x.interval_ms THEN x.lag END,
            CASE WHEN m.time - b.time <= 2 * b.interval_ms AND (x.time IS NULL OR b.time > x.time) THEN b.lag END
        ) AS lag,
        coalesce(
            CASE WHEN m.time - p.time <= 2 * p.interval_ms THEN p.waiting_ms END,
            CASE WHEN m.time - w.time <= 2 * w.interval_ms THEN w.waiting_ms END
        ) AS waiting_ms
    FROM moments m
    ASOF LEFT JOIN exact x
        ON x.topic = m.topic AND x.broker = m.broker AND x.queue_id = m.queue_id AND m.time >= x.time
    ASOF LEFT JOIN bounds b
        ON b.topic = m.topic AND b.broker = m.broker AND b.queue_id = m.queue_id AND m.time >= b.time
    ASOF LEFT JOIN spans p
        ON p.topic = m.topic AND p.broker = m.broker AND p.queue_id = m.queue_id AND m.time >= p.time
    ASOF LEFT JOIN waits w
        ON w.topic = m.topic AND w.broker = m.broker AND w.queue_id = m.queue_id AND m.time >= w.time
)
SELECT
    h.time, h.topic,
    CAST(sum(h.lag) AS BIGINT) AS lag,
    count(*) FILTER (h.lag IS NULL) AS lag_unknown,
    max(h.waiting_ms) AS waiting_ms
FROM held h
GROUP BY h.time, h.topic
ORDER BY h.time, h.topic
"""

_LOOK_BACK_MS = 900_000
"""As `progress_at`: what was last observed before that is gone, not stale."""


def lag(model: ReadModel, of: Subject, since: int, until: int, slices: int = 120) -> list[LagPoint]:
    """Return lag and waiting time by topic at the end of each slice of a span, as last observed by then."""
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
