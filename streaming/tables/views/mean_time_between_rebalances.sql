-- The mean time of a group between the starts of its rebalances; null if there was only one.
SELECT
    r.cluster, r.group,
    count(*) AS rebalances,
    min(r.start_time) AS first_start,
    max(r.start_time) AS last_start,
    CASE WHEN count(*) > 1
        THEN (epoch_ms(max(r.start_time)) - epoch_ms(min(r.start_time))) / CAST(count(*) - 1 AS DOUBLE) END AS mean_ms
FROM rebalances r
GROUP BY r.cluster, r.group
