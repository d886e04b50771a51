-- The owner of a queue at an instant, and since when; `client_id` is null if the queue was unassigned.
SELECT
    l.cluster, l.group, l.topic, l.broker, l.queue_id,
    CASE WHEN l.action = 'ASSIGNED' THEN l.client_id END AS client_id,
    l.time AS since,
    l.expected_owner, l.evidence, l.rebalance_id
FROM (
    SELECT
        h.*,
        row_number() OVER (PARTITION BY h.cluster, h.group, h.topic, h.broker, h.queue_id ORDER BY h.seq DESC) AS age
    FROM assignment_history h
    JOIN (
        SELECT c.cluster, c.group, c.topic, c.broker, c.queue_id, max(c.time) AS last_time
        FROM assignment_history c
        WHERE c.time <= instant
        GROUP BY c.cluster, c.group, c.topic, c.broker, c.queue_id
    ) t
        ON t.cluster = h.cluster AND t.group = h.group AND t.topic = h.topic AND t.broker = h.broker
        AND t.queue_id = h.queue_id AND t.last_time = h.time
) l
WHERE l.age = 1
