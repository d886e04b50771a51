-- name: groups_of_queue
SELECT DISTINCT s.cluster, s.group, s.topic, s.broker, s.queue_id FROM queue_state s
WHERE s.queue_id = $queue_id AND s.topic = $topic AND ($broker IS NULL OR s.broker = $broker)
    AND ($cluster IS NULL OR s.cluster = $cluster)
ORDER BY s.cluster, s.group, s.broker

-- name: queues
SELECT DISTINCT s.topic, s.broker, s.queue_id FROM queue_state s
WHERE ($cluster IS NULL OR s.cluster = $cluster) AND NOT starts_with(s.topic, '%RETRY%')
