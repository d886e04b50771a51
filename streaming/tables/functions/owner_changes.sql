-- A queue whose owner at the later of two instants differs from that at the earlier one; null is unassigned.
SELECT
    coalesce(a.cluster, b.cluster) AS cluster,
    coalesce(a.group, b.group) AS group,
    coalesce(a.topic, b.topic) AS topic,
    coalesce(a.broker, b.broker) AS broker,
    coalesce(a.queue_id, b.queue_id) AS queue_id,
    a.client_id AS from_client,
    b.client_id AS to_client
FROM owners_at(earlier) a
FULL OUTER JOIN owners_at(later) b
    ON a.cluster = b.cluster AND a.group = b.group AND a.topic = b.topic AND a.broker = b.broker
    AND a.queue_id = b.queue_id
WHERE a.client_id IS DISTINCT FROM b.client_id
