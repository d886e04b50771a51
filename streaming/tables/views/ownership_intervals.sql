-- An interval during which a client owned a queue; `to_time` is null while it still does. A queue that changes owners
-- is released and assigned at the same instant; while it has no owner there is no interval.
SELECT
    c.cluster, c.group, c.topic, c.broker, c.queue_id, c.client_id,
    c.time AS from_time,
    c.next_time AS to_time,
    epoch_ms(c.next_time) - epoch_ms(c.time) AS duration_ms,
    c.evidence,
    c.next_evidence AS end_evidence,
    c.rebalance_id
FROM (
    SELECT
        h.*,
        lead(h.time) OVER queue AS next_time,
        lead(h.evidence) OVER queue AS next_evidence
    FROM assignment_history h
    WINDOW queue AS (
        PARTITION BY h.cluster, h.group, h.topic, h.broker, h.queue_id ORDER BY h.time, h.seq
    )
) c
WHERE c.action = 'ASSIGNED'
