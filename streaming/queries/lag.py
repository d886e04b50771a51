"""How the lag of a group went."""

from streaming.queries.answers import LagPoint
from streaming.queries.subject import Subject
from streaming.read_model.reader import ReadModel

_LAG = """
SELECT
    p.slice_end AS time, p.topic,
    CAST(sum(p.lag) AS BIGINT) AS lag,
    count(*) FILTER (p.lag IS NULL) AS lag_unknown
FROM (
    SELECT
        $since + ((s.time - $since) // $step + 1) * $step AS slice_end,
        s.topic, s.broker, s.queue_id,
        arg_max_null(s.lag, s.seq) AS lag
    FROM queue_state s
    WHERE s.cluster = $cluster AND s.group = $group AND s.time >= $since AND s.time <= $until
        AND NOT starts_with(s.topic, '%RETRY%')
    GROUP BY slice_end, s.topic, s.broker, s.queue_id
) p
GROUP BY p.slice_end, p.topic
ORDER BY p.slice_end, p.topic
"""


def lag(model: ReadModel, of: Subject, since: int, until: int, slices: int = 120) -> list[LagPoint]:
    """The lag by topic at the end of each slice of a span in which anything of it was told."""
    wanted = {
        "cluster": of.cluster,
        "group": of.group,
        "since": since,
        "until": until,
        "step": max(1, (until - since) // slices),
    }
    return [LagPoint(**row) for row in model.rows(_LAG, wanted)]
