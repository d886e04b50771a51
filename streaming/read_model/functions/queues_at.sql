-- The last state of each queue that was told by an instant (epoch milliseconds).
SELECT
    l.cluster, l.group, l.topic, l.broker, l.queue_id, l.time, l.owner, l.expected_owner, l.locked, l.lock_age_ms,
    l.commit_offset, l.broker_offset, l.lag, l.cached_count, l.pull_age_ms, l.consume_age_ms, l.status, l.status_reason
FROM (
    SELECT
        s.*,
        row_number() OVER (
            PARTITION BY s.cluster, s.group, s.topic, s.broker, s.queue_id ORDER BY s.time DESC, s.seq DESC
        ) AS age
    FROM queue_state s
    WHERE s.time <= instant
) l
WHERE l.age = 1
