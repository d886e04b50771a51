-- name: owned
-- `ownership_intervals` of the queues that match alone: the view would sort the history of all queues.
SELECT
    c.cluster, c.group, c.topic, c.broker, c.queue_id, c.client_id, c.time AS from_time, c.next_time AS to_time,
    epoch_ms(c.next_time) - epoch_ms(c.time) AS duration_ms, c.evidence, c.next_evidence AS end_evidence, c.rebalance_id
FROM (
    SELECT h.*, lead(h.time) OVER queue AS next_time, lead(h.evidence) OVER queue AS next_evidence
    FROM assignment_history h
    SEMI JOIN (
        SELECT DISTINCT k.cluster, k.group, k.topic, k.broker, k.queue_id
        FROM assignment_history k
        WHERE k.time <= from_ms($until) AND NOT starts_with(k.topic, '%RETRY%') AND (
            contains(lower(k.client_id), $text)
            OR contains(lower(concat(k.topic, '@', k.broker, ':', k.queue_id)), $text)
        )
    ) p
        ON p.cluster = h.cluster AND p.group = h.group AND p.topic = h.topic AND p.broker = h.broker
        AND p.queue_id = h.queue_id
    WHERE h.time <= from_ms($until)
    WINDOW queue AS (
        PARTITION BY h.cluster, h.group, h.topic, h.broker, h.queue_id ORDER BY h.time, h.seq
    )
) c
WHERE c.action = 'ASSIGNED' AND (
        contains(lower(c.client_id), $text)
        OR contains(lower(concat(c.topic, '@', c.broker, ':', c.queue_id)), $text)
    )
    AND (c.next_time IS NULL OR c.next_time >= from_ms($since))
ORDER BY c.next_time DESC NULLS FIRST, c.cluster, c.group, c.topic, c.broker, c.queue_id, c.time DESC
LIMIT $last
