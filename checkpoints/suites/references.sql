-- One row for each reference in a row that was written since `since`, each once.
WITH archived_until AS (
    -- The operator may be ahead of the archive: until here every partition is archived.
    SELECT min(p.last) AS last
    FROM (SELECT max(t.ingest_time) AS last FROM telemetry t
        WHERE t.ingest_time >= from_ms($before) AND t.date >= CAST($first_day AS DATE)
        GROUP BY t.partition) p
),
causes AS (
    SELECT e.cause, min(e.known_at) AS known_at
    FROM (
        SELECT h.cause, h.known_at FROM assignment_history h UNION ALL
        SELECT r.cause, r.known_at FROM rebalances r UNION ALL
        SELECT g.cause, g.known_at FROM group_state g UNION ALL
        SELECT q.cause, q.known_at FROM queue_state q UNION ALL
        SELECT a.cause, a.known_at FROM anomalies a
    ) e
    WHERE e.known_at >= from_ms($since) AND e.cause <> ''
    GROUP BY e.cause
),
events AS (
    SELECT DISTINCT t.source_id || '|' || t.key || '|' || t.seq AS name
    FROM telemetry t
    WHERE t.ingest_time >= from_ms($before) AND t.date >= CAST($first_day AS DATE)
),
rebalance_ids AS (
    -- A rebalance has its row when it is over; it is over if a later one of its group is.
    SELECT DISTINCT h.cluster, h.group, h.rebalance_id
    FROM assignment_history h
    WHERE h.known_at >= from_ms($since) AND h.rebalance_id <> ''
        AND h.seq < (SELECT max(r.seq) FROM rebalances r WHERE r.cluster = h.cluster AND r.group = h.group
            AND r.rebalance_id <> h.rebalance_id)
),
parents AS (
    SELECT DISTINCT a.cluster, a.parent
    FROM anomalies a
    WHERE a.known_at >= from_ms($since) AND a.parent IS NOT NULL
)
SELECT CASE WHEN e.name IS NULL AND c.known_at <= u.last THEN c.cause END AS cause, NULL AS rebalance_id, NULL AS parent
FROM causes c
CROSS JOIN archived_until u
LEFT JOIN events e ON e.name = c.cause
UNION ALL
SELECT NULL, CASE WHEN r.rebalance_id IS NULL THEN concat_ws(' ', i.cluster, i.group, i.rebalance_id) END, NULL
FROM rebalance_ids i
LEFT JOIN rebalances r ON r.cluster = i.cluster AND r.group = i.group AND r.rebalance_id = i.rebalance_id
UNION ALL
SELECT NULL, NULL, CASE WHEN a.incident_id IS NULL THEN concat_ws(' ', p.cluster, p.parent) END
FROM parents p
LEFT JOIN (SELECT DISTINCT o.cluster, o.incident_id FROM anomalies o) a
    ON a.cluster = p.cluster AND a.incident_id = p.parent
