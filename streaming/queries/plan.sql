-- name: moves
SELECT count(DISTINCT m.rebalance_id) AS rebalances, count(*) AS moves, min(m.start_time) AS since,
    count(m.move.pause_ms) AS pauses, median(m.move.pause_ms)::BIGINT AS pause_ms, max(m.move.pause_ms) AS pause_ms_max,
    coalesce(bool_or(m.move.pause_is_at_most) FILTER (m.move.pause_ms IS NOT NULL), false) AS pause_is_at_most,
    count(m.move.reconsumed) AS counted, sum(m.move.reconsumed)::BIGINT AS reconsumed
FROM (
    SELECT r.rebalance_id, r.start_time, unnest(r.moves) AS move
    FROM (
        SELECT r.* FROM rebalances r
        WHERE r.cluster = $cluster AND r.group = $group
            AND r.start_time >= from_ms($since) AND r.end_time <= from_ms($until)
        ORDER BY r.start_time DESC, r.seq DESC
        LIMIT $last
    ) r
) m
WHERE m.move.kind = 'MOVED' AND m.move.from_client IS NOT NULL

-- name: measured_pauses
SELECT m.trigger, count(m.move.pause_ms) AS moves, median(m.move.pause_ms)::BIGINT AS pause_ms,
    max(m.move.pause_ms) AS pause_ms_max
FROM (
    SELECT r.trigger, unnest(r.moves) AS move
    FROM rebalances r
    WHERE r.cluster = $cluster AND r.group = $group
        AND r.start_time >= from_ms($since) AND r.end_time <= from_ms($until)
        AND r.trigger IN ('CLIENT_UNREGISTERED', 'CONNECTION_CLOSED', 'HEARTBEAT_EXPIRED')
) m
WHERE m.move.kind = 'MOVED' AND m.move.from_client IS NOT NULL
GROUP BY m.trigger
