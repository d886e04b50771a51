-- name: reach_of_broker
SELECT CAST(sum(b.queues) AS BIGINT) AS queues, max(b.groups) AS groups FROM brokers_at(from_ms($instant)) b
WHERE b.cluster = $cluster AND b.broker = $subject

-- name: reach_of_all
SELECT count(DISTINCT q.group) AS groups, count(*) AS queues FROM queues_at(from_ms($instant)) q
WHERE q.cluster = $cluster AND NOT starts_with(q.topic, '%RETRY%')

-- name: event
SELECT e.value FROM telemetry e
WHERE e.source_id = $source_id AND coalesce(e.key, '') = $key AND e.seq = $seq
    AND e.date BETWEEN $first AND $last AND e.time BETWEEN from_ms($begin) AND from_ms($end)
LIMIT 1

-- name: closings
SELECT k.time, k.control, k.author, k.reason FROM alert_controls k
WHERE k.control_id = $id AND k.control IN ('CLOSE', 'REOPEN')
ORDER BY k.time

-- name: stacks
SELECT e.value FROM telemetry e
WHERE e.key = $key AND e.type = 'CONSUMER_RUNNING_INFO' AND (contains(e.value, '"stacks":[') OR contains(e.value, '"stacks_asked":true'))
    AND json_extract_string(e.value, '$.client_id') = $client_id
    AND e.date BETWEEN $first AND $last AND e.time BETWEEN from_ms($begin) AND from_ms($end)
ORDER BY e.time DESC LIMIT 1

-- name: last_rebalance
SELECT r.rebalance_id FROM rebalances r
WHERE r.cluster = $cluster AND r.group = $group
    AND (r.rebalance_id = $subject OR r.start_time <= from_ms($opened))
ORDER BY (r.rebalance_id = $subject) DESC, r.start_time DESC, r.seq DESC LIMIT 1

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
        AND ($client IS NULL OR t.owner = $client) AND NOT starts_with(t.topic, '%RETRY%')
) q
