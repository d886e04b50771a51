-- The last state, reported by an instant, of a queue that its group had then. A group reports all its queues at least
-- once an hour (policy: snapshot_interval), so only the hour before the group's last report is read.
SELECT
    l.cluster, l.group, l.topic, l.broker, l.queue_id, l.time, l.owner, l.expected_owner, l.locked, l.lock_at,
    l.pull_at, l.consume_at, l.status, l.status_reason, l.shared_by
FROM (
    SELECT
        s.*,
        row_number() OVER (
            PARTITION BY s.cluster, s.group, s.topic, s.broker, s.queue_id ORDER BY s.seq DESC
        ) AS age
    FROM queue_state s
    -- To number all rows of the hour, not only the last ones, takes three times as long.
    JOIN (
        SELECT q.cluster, q.group, q.topic, q.broker, q.queue_id, max(q.time) AS last_time
        FROM queue_state q
        JOIN (
            SELECT g.cluster, g.group, max(g.time) AS last_time
            FROM group_state g
            WHERE g.time <= instant
            GROUP BY g.cluster, g.group
        ) t ON t.cluster = q.cluster AND t.group = q.group
        WHERE q.time <= instant AND q.time > t.last_time - INTERVAL '65' MINUTE
        GROUP BY q.cluster, q.group, q.topic, q.broker, q.queue_id
    ) n
        ON n.cluster = s.cluster AND n.group = s.group AND n.topic = s.topic AND n.broker = s.broker
        AND n.queue_id = s.queue_id AND n.last_time = s.time
    WHERE s.time <= instant
) l
WHERE l.age = 1
