-- The last state of a group reported by an instant.
SELECT
    l.cluster, l.group, l.time, l.members, l.subscriptions, l.consume_type, l.message_model, l.consume_from_where,
    l.orderly, l.strategy, l.health, l.health_reason, l.coverage, l.proxied_clients
FROM (
    SELECT
        s.*,
        row_number() OVER (PARTITION BY s.cluster, s.group ORDER BY s.seq DESC) AS age
    FROM group_state s
    JOIN (
        SELECT g.cluster, g.group, max(g.time) AS last_time
        FROM group_state g
        WHERE g.time <= instant
        GROUP BY g.cluster, g.group
    ) t ON t.cluster = s.cluster AND t.group = s.group AND t.last_time = s.time
) l
WHERE l.age = 1
