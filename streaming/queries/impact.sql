-- name: impact
SELECT
    count(*) AS queues,
    CAST(sum(q.lag) FILTER (NOT q.lag_is_stale) AS BIGINT) AS lag,
    coalesce(bool_or(q.lag_is_at_least) FILTER (NOT q.lag_is_stale), false) AS lag_is_at_least,
    count(*) FILTER (q.lag IS NULL OR q.lag_is_stale) AS lag_unknown,
    min(q.lag_time) FILTER (NOT q.lag_is_stale) AS lag_time,
    max(q.waiting_ms) FILTER (NOT q.waiting_is_stale) AS waiting_ms,
    coalesce(arg_max(q.waiting_is_at_most, q.waiting_ms) FILTER (NOT q.waiting_is_stale), false) AS waiting_is_at_most
FROM (
    SELECT p.lag, coalesce(p.lag_is_at_least, false) AS lag_is_at_least, p.lag_time,
        p.lag IS NULL OR coalesce(p.lag_is_stale, false) AS lag_is_stale,
        p.waiting_ms, coalesce(p.waiting_is_at_most, false) AS waiting_is_at_most,
        p.waiting_ms IS NULL OR coalesce(p.waiting_is_stale, false) AS waiting_is_stale
    FROM ({owned_queues}) t
    LEFT JOIN progress_at(from_ms($now)) p
        ON p.cluster = t.cluster AND p.group = t.group AND p.topic = t.topic AND p.broker = t.broker
        AND p.queue_id = t.queue_id
    WHERE t.cluster = $cluster AND ($group = '' OR t.group = $group)
        AND ($broker IS NULL OR t.broker = $broker)
        AND ($client IS NULL OR t.owner = $client)
        AND CASE
            WHEN $queue_id IS NULL THEN NOT starts_with(t.topic, '%RETRY%')
            ELSE t.topic = $topic AND t.queue_id = $queue_id
        END
) q
