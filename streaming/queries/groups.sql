-- name: groups
SELECT
    g.*,
    coalesce(q.queues, 0) AS queues,
    coalesce(q.unowned, 0) AS unowned,
    q.lag, coalesce(q.lag_is_at_least, false) AS lag_is_at_least, coalesce(q.lag_unknown, 0) AS lag_unknown,
    coalesce(q.lag_stale, 0) AS lag_stale, q.lag_age_ms, q.owned,
    r.last_rebalance
FROM groups_at(from_ms($instant)) g
LEFT JOIN (
    SELECT
        s.cluster, s.group,
        count(*) FILTER (NOT starts_with(s.topic, '%RETRY%')) AS queues,
        count(*) FILTER (s.owner IS NULL AND NOT starts_with(s.topic, '%RETRY%')) AS unowned,
        CAST(sum(p.lag) FILTER (NOT p.lag_is_stale) AS BIGINT) AS lag,
        bool_or(p.lag_is_at_least AND NOT p.lag_is_stale) AS lag_is_at_least,
        count(*) FILTER (p.lag IS NULL OR p.lag_is_stale) AS lag_unknown,
        count(*) FILTER (p.lag_is_stale) AS lag_stale,
        max(p.lag_age_ms) FILTER (NOT p.lag_is_stale) AS lag_age_ms,
        histogram(s.owner) AS owned
    FROM queues_at(from_ms($instant)) s
    LEFT JOIN progress_at(from_ms($now)) p
        ON p.cluster = s.cluster AND p.group = s.group AND p.topic = s.topic AND p.broker = s.broker
        AND p.queue_id = s.queue_id
    WHERE {counts_for_lag}
        AND ($cluster IS NULL OR s.cluster = $cluster) AND ($group IS NULL OR s.group = $group)
    GROUP BY s.cluster, s.group
) q ON q.cluster = g.cluster AND q.group = g.group
LEFT JOIN (
    SELECT b.cluster, b.group, max(b.start_time) AS last_rebalance
    FROM rebalances b
    WHERE b.time <= from_ms($instant)
    GROUP BY b.cluster, b.group
) r ON r.cluster = g.cluster AND r.group = g.group
WHERE ($cluster IS NULL OR g.cluster = $cluster) AND ($group IS NULL OR g.group = $group)
ORDER BY g.cluster, g.group

-- name: last_state
SELECT t.members, t.message_model, t.consume_type, t.strategy, t.coverage, t.time
FROM groups_at(from_ms($instant)) t
WHERE t.cluster = $cluster AND t.group = $group
