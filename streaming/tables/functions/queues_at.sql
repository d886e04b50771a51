-- The last state, reported by an instant, of a queue that its group had then. A group reports all its queues at least
-- once an hour (policy: snapshot_interval), so only the hour before the group's last report is read.
SELECT
    l.cluster, l.group, l.topic, l.broker, l.queue_id, l.time, l.owner, l.expected_owner, l.locked, l.lock_at,
    l.pull_at, l.consume_at, l.status, l.status_reason
FROM (
    SELECT
        s.*,
        row_number() OVER (
            PARTITION BY s.cluster, s.group, s.topic, s.broker, s.queue_id ORDER BY s.time DESC, s.seq DESC
        ) AS age
    FROM queue_state s
    JOIN (
        SELECT g.cluster, g.group, max(g.time) AS last_time
        FROM group_state g
        WHERE g.time <= instant
        GROUP BY g.cluster, g.group
    ) t ON t.cluster = s.cluster AND t.group = s.group
    WHERE s.time <= instant AND s.time > t.last_time - INTERVAL '65' MINUTE
) l
WHERE l.age = 1
