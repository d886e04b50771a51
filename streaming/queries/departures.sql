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
