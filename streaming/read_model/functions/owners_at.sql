-- Who owned each queue at an instant (epoch milliseconds), and since when; `client_id` is null where nobody did.
SELECT
    l.cluster, l.group, l.topic, l.broker, l.queue_id,
    CASE WHEN l.action = 'ASSIGNED' THEN l.client_id END AS client_id,
    l.time AS since,
    l.expected_owner, l.evidence, l.rebalance_id
FROM (
    SELECT
        h.*,
        row_number() OVER (
            PARTITION BY h.cluster, h.group, h.topic, h.broker, h.queue_id ORDER BY h.time DESC, h.seq DESC
        ) AS age
    FROM assignment_history h
    WHERE h.time <= instant
) l
WHERE l.age = 1
