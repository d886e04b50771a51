"""How the lag of a group went."""

from rebalance_model.observe.policy import Policy
from streaming.queries.answers import LagPoint
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
asked AS (
    SELECT e.slice_end, q.topic, q.broker, q.queue_id
    FROM (SELECT DISTINCT t.slice_end FROM told t) e
    CROSS JOIN (SELECT DISTINCT t.topic, t.broker, t.queue_id FROM told t) q
)
SELECT
    a.slice_end AS time, a.topic,
    CAST(sum(t.lag) AS BIGINT) AS lag,
    count(*) FILTER (t.lag IS NULL) AS lag_unknown
FROM asked a
ASOF JOIN told t
    ON t.topic = a.topic AND t.broker = a.broker AND t.queue_id = a.queue_id AND a.slice_end >= t.slice_end
WHERE a.slice_end - t.slice_end <= $kept
GROUP BY a.slice_end, a.topic
ORDER BY a.slice_end, a.topic
"""

_KEPT_MS = 2 * Policy().snapshot_interval
"""A queue's lag is told when something else about it changes, and every snapshot interval: until it is told again, what
was told last holds. A queue that is told no more is gone."""


def lag(model: ReadModel, of: Subject, since: int, until: int, slices: int = 120) -> list[LagPoint]:
    """The lag by topic at the end of each slice of a span in which anything of it was told."""
    step = max(1, (until - since) // slices)
    wanted = {
        "cluster": of.cluster,
        "group": of.group,
        "since": since,
        "until": until,
        "step": step,
        "kept": max(_KEPT_MS, step),
    }
    return [LagPoint(**row) for row in model.rows(_LAG, wanted)]
