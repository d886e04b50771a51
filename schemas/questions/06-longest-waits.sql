-- For how long did a message wait at most, in each queue, and when?
SELECT
    topic, broker, queue_id,
    max(waiting_ms) / 1e3 AS seconds, max_by(time, (waiting_ms, -epoch_ms(time))) AS seen_at
FROM (
    SELECT time, broker, unnest(topic) AS topic, unnest(queue_id) AS queue_id, unnest(waiting_ms) AS waiting_ms
    FROM queue_progress
    WHERE "group" = $group AND kind IN ('CONSUME_STATS', 'CONSUME_TIME_SPAN')
        AND date BETWEEN CAST($since AS DATE) AND CAST($until AS DATE) AND time >= $since AND time < $until
)
WHERE waiting_ms > 0
GROUP BY topic, broker, queue_id
ORDER BY seconds DESC, topic, broker, queue_id
LIMIT 20
