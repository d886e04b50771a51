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

-- name: children
SELECT i.* FROM incidents i WHERE i.parent = $id ORDER BY i.opened_at, i.code, i.subject
