-- What were the median, the 95th and the 99th percentile of the lag of a queue, for each topic? Exact lags alone.
SELECT
    topic, count(*) AS observations,
    quantile_disc(lag, 0.5) AS p50, quantile_disc(lag, 0.95) AS p95, quantile_disc(lag, 0.99) AS p99, max(lag) AS worst
FROM (
    SELECT unnest(topic) AS topic, unnest(lag) AS lag, unnest(lag_is_at_least) AS lag_is_at_least
    FROM queue_progress
    WHERE "group" = $group AND kind = 'CONSUME_STATS' AND date BETWEEN CAST($since AS DATE) AND CAST($until AS DATE)
        AND time >= $since AND time < $until
)
WHERE lag IS NOT NULL AND lag_is_at_least IS NOT TRUE
GROUP BY topic
ORDER BY topic
