-- name: heard
-- By the sources' clocks: a recording is ingested later. Hooks' quantities do not count: none come while a group has no
-- clients.
SELECT max(h.time) AS last, max_by(h.interval_ms, h.time) AS interval_ms FROM (
    SELECT p.time, p.cluster, p.interval_ms FROM queue_progress p
    WHERE p.time > from_ms($since) AND p.time <= from_ms($until) AND p.source = 'POLL'
        AND p.date BETWEEN day_of($since) AND day_of($until)
    UNION ALL
    SELECT e.time, e.cluster, 0 AS interval_ms FROM telemetry e
    WHERE e.time > from_ms($since) AND e.time <= from_ms($until) AND e.date BETWEEN day_of($since) AND day_of($until)
) h
WHERE $cluster IS NULL OR h.cluster = $cluster

-- name: last_state
SELECT max(g.time) AS last FROM group_state g WHERE g.time <= from_ms($at)
