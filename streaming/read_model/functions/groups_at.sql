-- The last state of each group that was told by an instant (epoch milliseconds).
SELECT
    l.cluster, l.group, l.time, l.members, l.subscriptions, l.consume_type, l.message_model, l.consume_from_where,
    l.orderly, l.strategy, l.health, l.health_reason, l.coverage
FROM (
    SELECT
        s.*,
        row_number() OVER (PARTITION BY s.cluster, s.group ORDER BY s.time DESC, s.seq DESC) AS age
    FROM group_state s
    WHERE s.time <= instant
) l
WHERE l.age = 1
