"""Query the messages of a group that its listeners refused: those to be tried again, and those that were given up."""

from rebalance_model.entities import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX
from streaming.queries.group_at import GroupAt
from streaming.queries.observed import observed
from streaming.queries.present import present
from streaming.queries.results import FailedMessages
from streaming.tables.observations import LOOK_BACK_MS, rank
from streaming.tables.reader import ReadModel

GROWTH_MS = 3_600_000
"""The time over which added messages are counted."""
_SLICE_MS = 300_000
"""How exactly the beginning of that time is met where history begins within it."""

_COLUMNS = ["lag", "broker_offset", "min_offset", "stored_at"]
_OF_OFFSETS = "p.kind IN ('CONSUME_STATS', 'TOPIC_STATS')"
_AT_THE_ENDS = "(p.time <= from_ms($since + 300000) OR p.time > from_ms($until - $back))"
"""Only answers at both ends of the time, two fifths of all; for the 5 minutes see `_OF` of `observed`."""


def _failed(condition: str) -> str:
    """Return the query, over the answers of a condition as in `observed`.

    A retry topic without a message has no lag that is known: nothing was ever committed there.
    """
    return f"""
WITH seen AS (
    SELECT
        o.topic, o.broker, o.queue_id, epoch_ms(o.time) AS time, {rank("o")} AS rank, o.interval_ms,
        o.lag, o.broker_offset, o.min_offset, epoch_ms(o.stored_at) AS stored_at
    FROM ({observed(_COLUMNS, condition, "$retry, $dead")}) o
    WHERE o.broker_offset IS NOT NULL
        AND o.time > from_ms($since - $back) AND o.time <= from_ms($until)
),
of_queue AS (
    SELECT
        s.topic, s.broker, max(s.time) AS time, max_by(s.interval_ms, s.rank) AS interval_ms,
        max_by({{'lag': s.lag, 'offset': s.broker_offset, 'min': s.min_offset, 'at': s.stored_at}}, s.rank) AS last,
        coalesce(
            max_by({{'offset': s.broker_offset, 'time': s.time}}, s.rank) FILTER (s.time <= $since),
            min_by({{'offset': s.broker_offset, 'time': s.time}}, s.rank)
        ) AS first
    FROM seen s
    GROUP BY s.topic, s.broker, s.queue_id
)
SELECT
    q.topic, q.broker, q.topic = $dead AS given_up,
    CASE WHEN count(*) = count(q.messages) THEN CAST(sum(q.messages) AS BIGINT) END AS messages,
    CASE WHEN count(*) = count(q.added) THEN CAST(sum(q.added) AS BIGINT) END AS added,
    max(q.since) AS added_since, max(q.newest_at) AS newest_at,
    min(q.time) AS time, $until - min(q.time) AS age_ms, bool_or($until - q.time > 2 * q.interval_ms) AS is_stale
FROM (
    SELECT
        f.topic, f.broker, f.time, f.interval_ms, f.first.time AS since, f.last.at AS newest_at,
        CASE
            WHEN f.topic = $dead THEN f.last.offset - f.last.min
            WHEN f.last.offset = 0 THEN 0
            ELSE f.last.lag
        END AS messages,
        CASE WHEN f.last.offset >= f.first.offset THEN f.last.offset - f.first.offset END AS added
    FROM of_queue f
) q
GROUP BY q.topic, q.broker
ORDER BY given_up, q.broker
"""  # noqa: S608  parts of ours


_IN_SHORT = _failed(f"{_OF_OFFSETS} AND {_AT_THE_ENDS}")
_IN_FULL = _failed(_OF_OFFSETS)
"""Where the history of a topic begins within the time: its first answer counts."""


def failed_messages(model: ReadModel, of: GroupAt) -> list[FailedMessages]:
    """Return the retry topic of a group at each broker, then its dead-letter topic; one that is unknown is left out."""
    until = present(model, of.at)
    wanted = {
        "cluster": of.cluster,
        "group": of.group,
        "retry": f"{RETRY_TOPIC_PREFIX}{of.group}",
        "dead": f"{DEAD_LETTER_TOPIC_PREFIX}{of.group}",
        "since": until - GROWTH_MS,
        "until": until,
        "step": _SLICE_MS,
        "back": LOOK_BACK_MS,
    }
    rows = model.rows(_IN_SHORT, wanted)
    if any(row["added_since"] > until - GROWTH_MS for row in rows):
        rows = model.rows(_IN_FULL, wanted)
    known = (row for row in rows if row["age_ms"] <= LOOK_BACK_MS)
    return [FailedMessages(**row | {"added_ms": until - row.pop("added_since")}) for row in known]
