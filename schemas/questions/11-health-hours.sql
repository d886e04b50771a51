-- For how many hours had each group each health? Between two rows of a group the former one holds; there is one an hour
-- or more.
SELECT cluster, "group", health, sum(epoch_ms(ends) - epoch_ms(begins)) / 3.6e6 AS hours
FROM (
    SELECT
        cluster, "group", health, greatest(time, $since) AS begins,
        least(coalesce(lead(time) OVER (PARTITION BY cluster, "group" ORDER BY time, seq), $until), $until) AS ends
    FROM group_state
    WHERE time >= $since - INTERVAL 1 HOUR AND time < $until
)
WHERE begins < ends
GROUP BY cluster, "group", health
ORDER BY cluster, "group", health
