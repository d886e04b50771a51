-- name: lists
SELECT t.cluster, t.group, t.proxy, max(t.time) AS time, arg_max(t.connections, t.time) AS connections
FROM (
    SELECT e.*, json_extract_string(e.value, '$.proxy') AS proxy, json_extract(e.value, '$.connections') AS connections
    FROM telemetry e
    WHERE e.type IN ('CONSUMER_CONNECTION', 'PROXY_CONNECTION')
        AND e.time > from_ms($now - $back) AND e.time <= from_ms($now)
        AND e.date BETWEEN day_of($now - $back) AND day_of($now)
        AND ($cluster IS NULL OR e.cluster = $cluster) AND ($group IS NULL OR e.group = $group)
) t
WHERE t.connections IS NOT NULL
GROUP BY t.cluster, t.group, t.broker, t.proxy

-- name: reports
SELECT
    t.cluster, t.group, t.type, t.client_id, max(t.time) AS time,
    arg_max(json_extract_string(
        t.value, ['$.version', '$.language', '$.channel', '$.start_time', '$.proxy']
    ), t.time) AS said,
    arg_max(json_extract(t.value, '$.subscriptions'), t.time) AS subscriptions
FROM (
    SELECT e.*, json_extract_string(e.value, '$.client_id') AS client_id
    FROM telemetry e
    WHERE e.type IN ('HEART_BEAT', 'CONSUMER_RUNNING_INFO', 'PROXY_HEART_BEAT')
        AND e.time > from_ms($now - $back) AND e.time <= from_ms($now)
        AND e.date BETWEEN day_of($now - $back) AND day_of($now)
        AND ($cluster IS NULL OR e.cluster = $cluster) AND ($group IS NULL OR e.group = $group)
) t
WHERE $client IS NULL OR t.client_id = $client
GROUP BY t.cluster, t.group, t.type, t.client_id

-- name: members
SELECT g.cluster, g.group, g.time, list_distinct(list_concat(g.members, g.proxied_clients)) AS clients
FROM groups_at(from_ms($instant)) g
WHERE ($cluster IS NULL OR g.cluster = $cluster) AND ($group IS NULL OR g.group = $group)

-- name: owned
SELECT o.cluster, o.group, o.client_id, count(*) AS queues FROM owners_at(from_ms($instant)) o
WHERE o.client_id IS NOT NULL AND NOT starts_with(o.topic, '%RETRY%')
    AND ($cluster IS NULL OR o.cluster = $cluster) AND ($group IS NULL OR o.group = $group)
GROUP BY o.cluster, o.group, o.client_id

-- name: open_incidents
SELECT i.cluster, i.group, i.client_id, i.subject, i.severity, i.code FROM incidents_at(from_ms($instant)) i
WHERE i.resolved_at IS NULL AND ($cluster IS NULL OR i.cluster = $cluster) AND ($group IS NULL OR i.group = $group)

-- name: intervals
SELECT t.* FROM ownership_intervals t
WHERE t.client_id = $client AND ($cluster IS NULL OR t.cluster = $cluster) AND ($group IS NULL OR t.group = $group)
    AND t.from_time <= from_ms($until) AND (t.to_time IS NULL OR t.to_time >= from_ms($since))
ORDER BY t.cluster, t.group, t.topic, t.broker, t.queue_id, t.from_time

-- name: incidents
SELECT i.* FROM incidents_at(from_ms($instant)) i
WHERE (i.client_id = $client OR i.subject = $client)
    AND ($cluster IS NULL OR i.cluster = $cluster) AND ($group IS NULL OR i.group = $group)
    AND (i.resolved_at IS NULL OR i.resolved_at >= from_ms($since))
ORDER BY (i.resolved_at IS NULL) DESC, i.opened_at DESC, i.code, i.subject, i.incident_id
