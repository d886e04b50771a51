-- name: incidents
SELECT i.*, coalesce(c.consequences, 0) AS consequences
FROM incidents_at(from_ms($instant)) i
LEFT JOIN (
    SELECT l.parent, count(*) AS consequences
    FROM (
        SELECT arg_max_null(a.parent, (a.time, a.seq)) AS parent
        FROM anomalies a
        WHERE a.time <= from_ms($instant)
        GROUP BY a.cluster, a.group, a.incident_id
    ) l
    WHERE l.parent IS NOT NULL
    GROUP BY l.parent
) c ON c.parent = i.incident_id
WHERE ($cluster IS NULL OR i.cluster = $cluster) AND ($group IS NULL OR i.group IN ($group, ''))
    AND ($code IS NULL OR i.code = $code) AND ($severity IS NULL OR i.severity = $severity)
    AND (NOT $only_open OR i.resolved_at IS NULL) AND (NOT $only_resolved OR i.resolved_at IS NOT NULL)
    AND (NOT $only_held OR i.cleared_at IS NULL)
    AND (i.resolved_at IS NULL OR i.resolved_at >= from_ms($since))
ORDER BY (i.resolved_at IS NULL) DESC, i.opened_at DESC, i.code, i.subject, i.incident_id
LIMIT $last

-- name: brokers_of_group
SELECT q.cluster, q.broker, bool_or(q.group = $group) AS of_group
FROM queues_at(from_ms($instant)) q
GROUP BY q.cluster, q.broker

-- name: explaining
SELECT i.* FROM incidents_at(from_ms($instant)) i
WHERE i.code IN $codes AND ($cluster IS NULL OR i.cluster = $cluster)
    AND (i.resolved_at IS NULL OR i.resolved_at >= from_ms($since))

-- name: popping_groups
SELECT g.cluster, g.group FROM groups_at(from_ms($instant)) g
WHERE json_extract_string(g.coverage, '$.sharing') IN ('POPPED', 'MIXED', 'PROXIED', 'UNLISTED')

-- name: brokers_of_groups
SELECT DISTINCT q.cluster, q.group, q.broker FROM queues_at(from_ms($instant)) q
WHERE $cluster IS NULL OR q.cluster = $cluster

-- name: kinds
SELECT DISTINCT a.group, a.code FROM anomalies a ORDER BY a.group, a.code

-- name: ids
SELECT DISTINCT a.incident_id FROM anomalies a WHERE starts_with(a.incident_id, $id)

-- name: family
SELECT i.* FROM incidents i WHERE i.incident_id = $id OR i.parent = $id ORDER BY i.opened_at, i.code, i.subject

-- name: transitions
SELECT * FROM anomalies a WHERE a.incident_id = $id ORDER BY a.time, a.seq
