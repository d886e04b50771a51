-- How long each queue that was given up had no owner; `to_time` is null while it has none. Retry topics are left out.
SELECT
    c.cluster, c.group, c.topic, c.broker, c.queue_id,
    c.client_id AS from_client,
    c.next_client AS to_client,
    c.time AS from_time,
    c.next_time AS to_time,
    c.next_time - c.time AS pause_ms,
    c.rebalance_id
FROM (
    SELECT
        h.*,
        lead(h.time) OVER queue AS next_time,
        lead(h.client_id) OVER queue AS next_client
    FROM assignment_history h
    WINDOW queue AS (
        PARTITION BY h.cluster, h.group, h.topic, h.broker, h.queue_id ORDER BY h.time, h.seq
    )
) c
WHERE c.action = 'RELEASED' AND left(c.topic, 7) <> '%RETRY%'
