-- An incident after its last transition by an instant; `resolved_at` is null if it was open. A person closes an incident
-- and those that it absorbs; `cleared_at` is null while the condition of an incident holds, whether it is closed or not.
SELECT
    l.cluster, l.group, l.incident_id, l.code, l.sub_cause, l.severity, l.subject, l.opened_at,
    CASE WHEN l.is_closed THEN greatest(l.closed_at, l.opened_at) ELSE l.cleared_at END AS resolved_at,
    l.time AS changed_at,
    l.transitions,
    l.topic, l.broker, l.queue_id, l.client_id, l.evidence, l.explanation, l.first_step, l.parent, l.cause,
    l.main_cause, l.main_client_id, l.main_explanation,
    CASE WHEN l.is_closed THEN l.closed ELSE l.resolution END AS resolution,
    coalesce(l.absorbed, l.parent IS NOT NULL) AS absorbed,
    l.cleared_at
FROM (
    SELECT
        d.*,
        d.closed_at IS NOT NULL AND (d.cleared_at IS NULL OR d.cleared_at > d.closed_at) AS is_closed
    FROM (
        SELECT
            h.*,
            CASE WHEN h.transition = 'RESOLVED' THEN h.time END AS cleared_at,
            coalesce(o.closed_at, p.closed_at) AS closed_at,
            coalesce(o.resolution, p.resolution) AS closed
        FROM (
            SELECT
                a.*,
                t.transitions,
                row_number() OVER (PARTITION BY a.cluster, a.group, a.incident_id ORDER BY a.seq DESC) AS age
            FROM anomalies a
            JOIN (
                SELECT b.cluster, b.group, b.incident_id, max(b.time) AS last_time, count(*) AS transitions
                FROM anomalies b
                WHERE b.time <= instant
                GROUP BY b.cluster, b.group, b.incident_id
            ) t
                ON t.cluster = a.cluster AND t.group = a.group AND t.incident_id = a.incident_id
                AND t.last_time = a.time
        ) h
        LEFT JOIN closed_at(instant) o ON o.incident_id = h.incident_id
        LEFT JOIN closed_at(instant) p ON p.incident_id = h.parent AND coalesce(h.absorbed, true)
        WHERE h.age = 1
    ) d
) l
