-- name: observations
SELECT
    o.time, o.source, o.kind, o.client_id, epoch_ms(o.time) + 2 * o.interval_ms AS stale_at,
    o.broker_offset, o.commit_offset, o.lag, coalesce(o.lag_is_at_least, false) AS lag_is_at_least, o.waiting_ms,
    coalesce(o.waiting_ms > 0, false) AND o.kind <> 'CONSUME_TIME_SPAN' AS waiting_is_at_most,
    o.lock_at
FROM ({observed}) o
WHERE o.queue_id = $queue_id AND o.time <= from_ms($until)
    AND epoch_ms(o.time) + 2 * o.interval_ms > $since
ORDER BY o.time, o.level DESC

-- name: intervals
SELECT t.* FROM ownership_intervals t
WHERE t.cluster = $cluster AND t.group = $group
    AND t.topic = $topic AND t.broker = $broker AND t.queue_id = $queue_id AND t.from_time <= from_ms($until)
ORDER BY t.from_time
