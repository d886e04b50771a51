-- What is the mean time between the starts of two rebalances of a group? Null: there was only one.
SELECT
    cluster, "group", count(*) AS rebalances,
    (epoch_ms(max(start_time)) - epoch_ms(min(start_time))) / nullif(count(*) - 1, 0) / 60e3 AS minutes_between
FROM rebalances
GROUP BY cluster, "group"
ORDER BY minutes_between, cluster, "group"
