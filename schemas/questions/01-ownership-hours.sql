-- For how many hours did each client own queues, on each day? A client with two queues has two queue-hours an hour.
SELECT
    day, client_id,
    sum(epoch_ms(least(ends, day + INTERVAL 1 DAY)) - epoch_ms(greatest(begins, day))) / 3.6e6 AS queue_hours
FROM (
    SELECT client_id, begins, ends, unnest(generate_series(date_trunc('day', begins), ends, INTERVAL 1 DAY)) AS day
    FROM (
        SELECT client_id, action, greatest(time, $since) AS begins, least(coalesce(next_time, $until), $until) AS ends
        FROM (
            SELECT *, lead(time) OVER (PARTITION BY cluster, topic, broker, queue_id ORDER BY time, seq) AS next_time
            FROM assignment_history
            WHERE "group" = $group AND time < $until
        )
    )
    WHERE action = 'ASSIGNED' AND begins < ends
)
WHERE greatest(begins, day) < ends
GROUP BY day, client_id
ORDER BY day, queue_hours DESC, client_id
