-- For how many hours of each day had each group lag? An observation of a queue counts until its next one, at most for two of its intervals: in a gap nothing is known. A lower bound of 0 says nothing.
WITH queues AS (
    SELECT cluster, "group", broker, topic, queue_id, time, lag, interval_ms
    FROM (
        SELECT cluster, "group", broker, time, interval_ms, unnest(topic) AS topic, unnest(queue_id) AS queue_id,
            unnest(lag) AS lag, unnest(lag_is_at_least) AS lag_is_at_least
        FROM queue_progress  -- also what was observed before the period, and counts into it
        WHERE date BETWEEN CAST($since - INTERVAL 1 HOUR AS DATE) AND CAST($until AS DATE)
            AND time >= $since - INTERVAL 1 HOUR AND time < $until AND kind IN ('CONSUME_STATS', 'HOOK')
    )
    WHERE lag > 0 OR lag = 0 AND lag_is_at_least IS NOT TRUE
),
spans AS (
    SELECT cluster, "group", lag, greatest(time, $since) AS begins, least(
        lead(time) OVER (PARTITION BY cluster, "group", broker, topic, queue_id ORDER BY time),
        time + to_milliseconds(2 * interval_ms), $until
    ) AS ends
    FROM queues
),
days AS (
    SELECT *, unnest(generate_series(date_trunc('day', begins), ends, INTERVAL 1 DAY)) AS day
    FROM spans
    WHERE begins < ends
),
parts AS (
    SELECT *, epoch_ms(least(ends, day + INTERVAL 1 DAY)) - epoch_ms(greatest(begins, day)) AS part_ms
    FROM days
)
SELECT
    cluster, "group", day, sum(part_ms) FILTER (WHERE lag > 0) / 3.6e6 AS queue_hours_with_lag,
    sum(part_ms) / 3.6e6 AS queue_hours_known
FROM parts
WHERE part_ms > 0
GROUP BY cluster, "group", day
ORDER BY day, queue_hours_with_lag DESC NULLS LAST, cluster, "group"
