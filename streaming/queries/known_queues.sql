-- name: queues
SELECT DISTINCT t.topic, t.broker, t.queue_id FROM queue_state t
WHERE t.cluster = $cluster AND t.group = $group

-- name: existed
SELECT 1 FROM queues_at(from_ms($instant)) t
WHERE t.cluster = $cluster AND t.group = $group
    AND t.topic = $topic AND t.broker = $broker AND t.queue_id = $queue_id

-- name: first_seen
SELECT min(t.time) AS first FROM queue_state t
WHERE t.cluster = $cluster AND t.group = $group
    AND t.topic = $topic AND t.broker = $broker AND t.queue_id = $queue_id AND t.time > from_ms($instant)
