-- name: failed_messages
-- A retry topic without a message has no lag that is known: nothing was ever committed there.
WITH seen AS (
    SELECT
        o.topic, o.broker, o.queue_id, epoch_ms(o.time) AS time, o.rank, o.interval_ms,
        o.lag, o.broker_offset, o.min_offset, epoch_ms(o.stored_at) AS stored_at
    FROM ({observed}) o
    WHERE o.broker_offset IS NOT NULL
        AND o.time > from_ms($since - $back) AND o.time <= from_ms($until)
),
of_queue AS (
    SELECT
        s.topic, s.broker, max(s.time) AS time, max_by(s.interval_ms, s.rank) AS interval_ms,
        max_by({'lag': s.lag, 'offset': s.broker_offset, 'min': s.min_offset, 'at': s.stored_at}, s.rank) AS last,
        coalesce(
            max_by({'offset': s.broker_offset, 'time': s.time}, s.rank) FILTER (s.time <= $since),
            min_by({'offset': s.broker_offset, 'time': s.time}, s.rank)
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
