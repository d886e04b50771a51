-- For how many hours of each day had each group lag? An observation of a queue counts until its next one, at most for two of its intervals: in a gap nothing is known.
WITH queues AS (
    SELECT cluster, "group", broker, topic, queue_id, time, lag, interval_ms
    FROM (
        SELECT cluster, "group", broker, time, interval_ms, unnest(topic) AS topic, unnest(queue_id) AS queue_id,
            unnest(lag) AS lag
        FROM queue_progress
        WHERE date BETWEEN CAST($since AS DATE) AND CAST($until AS DATE) AND time >= $since AND time < $until
            AND kind IN ('CONSUME_STATS', 'HOOK')
    )
    WHERE lag IS NOT NULL
),
spans AS (
    SELECT *, least(
        coalesce(lead(time) OVER (PARTITION BY cluster, "group", broker, topic, queue_id ORDER BY time), $until),
        time + to_milliseconds(2 * interval_ms), $until, date_trunc('day', time) + INTERVAL 1 DAY
    ) AS ends
    FROM queues
)
SELECT
    cluster, "group", date_trunc('day', time) AS day,
    sum(epoch_ms(ends) - epoch_ms(time)) FILTER (WHERE lag > 0) / 3.6e6 AS queue_hours_with_lag,
    sum(epoch_ms(ends) - epoch_ms(time)) / 3.6e6 AS queue_hours_known
FROM spans
GROUP BY cluster, "group", day
ORDER BY day, queue_hours_with_lag DESC NULLS LAST, cluster, "group"
