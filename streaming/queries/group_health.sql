-- name: states
SELECT s.cluster, s.group, s.time, s.health
FROM group_state s
JOIN (SELECT unnest($clusters) AS cluster, unnest($groups) AS name) w ON w.cluster = s.cluster AND w.name = s.group
WHERE s.time > from_ms($since - $back) AND s.time <= from_ms($until)
ORDER BY s.cluster, s.group, s.time, s.seq

-- name: heard
-- When each cluster was heard, by the minute: the same sources as those of `present.last_heard`.
SELECT h.cluster, min(h.time) AS first, max(h.time) AS last, bool_or(h.is_source) AS is_source
FROM (
    SELECT s.cluster, s.time, false AS is_source FROM group_state s
    WHERE s.time > from_ms($since - $back) AND s.time <= from_ms($until)
    UNION ALL
    SELECT p.cluster, p.time, true FROM queue_progress p
    WHERE p.time > from_ms($since - $back) AND p.time <= from_ms($until) AND p.source = 'POLL'
        AND p.date BETWEEN day_of($since - $back) AND day_of($until)
    UNION ALL
    SELECT e.cluster, e.time, true FROM telemetry e
    WHERE e.time > from_ms($since - $back) AND e.time <= from_ms($until)
        AND e.date BETWEEN day_of($since - $back) AND day_of($until)
) h
WHERE list_contains($clusters, h.cluster)
GROUP BY h.cluster, epoch_ms(h.time) // 60000
ORDER BY h.cluster, first
