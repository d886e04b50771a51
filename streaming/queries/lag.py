"""How the lag of a group went."""

from streaming.queries.answers import LagPoint
from streaming.queries.retold import retold_ms
from streaming.queries.subject import Subject
from streaming.read_model.reader import ReadModel

_LAG = """
WITH told AS (
    SELECT
        $since + CASE WHEN s.time < $since THEN 0 ELSE (s.time - $since) // $step + 1 END * $step AS slice_end,
        s.topic, s.broker, s.queue_id,
        arg_max_null(s.lag, s.seq) AS lag
    FROM queue_state s
    WHERE s.cluster = $cluster AND s.group = $group AND s.time > $since - $kept AND s.time <= $until
        AND NOT starts_with(s.topic, '%RETRY%')
    GROUP BY slice_end, s.topic, s.broker, s.queue_id
),
held AS (
    SELECT
        t.slice_end, t.topic, t.lag,
        least(
            t.slice_end + $kept,
            lead(t.slice_end) OVER (PARTITION BY t.topic, t.broker, t.queue_id ORDER BY t.slice_end)
        ) AS until
    FROM told t
),
changes AS (
    SELECT
        c.time, c.topic,
        sum(c.sign * c.lag) AS lag, sum(c.sign) AS queues, sum(c.sign) FILTER (c.lag IS NULL) AS unknown
    FROM (
        SELECT h.slice_end AS time, h.topic, h.lag, 1 AS sign FROM held h
        UNION ALL
        SELECT h.until, h.topic, h.lag, -1 FROM held h WHERE h.until <= $until + $step
    ) c
    GROUP BY c.time, c.topic
)
SELECT
    r.time, r.topic,
    CASE WHEN r.queues > r.unknown THEN CAST(r.lag AS BIGINT) END AS lag,
    CAST(r.unknown AS BIGINT) AS lag_unknown
FROM (
    SELECT
        c.time, c.topic,
        sum(c.lag) OVER t AS lag, sum(c.queues) OVER t AS queues, coalesce(sum(c.unknown) OVER t, 0) AS unknown
    FROM changes c
    WINDOW t AS (PARTITION BY c.topic ORDER BY c.time)
) r
ORDER BY r.time, r.topic
"""

_KEPT = 2
"""A queue's lag is told when something else about it changes, and every snapshot interval: until it is told again, what
was told last holds. A queue that is told no more, after so many of them, is gone."""


def lag(model: ReadModel, of: Subject, since: int, until: int, slices: int = 120) -> list[LagPoint]:
    """The lag by topic at the end of each slice of a span in which it changed, or more or less of it was known."""
    step = max(1, (until - since) // slices)
    wanted = {
        "cluster": of.cluster,
        "group": of.group,
        "since": since,
        "until": until,
        "step": step,
        "kept": max(_KEPT * retold_ms(model), step),
    }
    return [LagPoint(**row) for row in model.rows(_LAG, wanted)]
