-- An incident after its last transition by an instant; `resolved_at` is null if it was open.
SELECT
    l.cluster, l.group, l.incident_id, l.code, l.sub_cause, l.severity, l.subject, l.opened_at,
    CASE WHEN l.transition = 'RESOLVED' THEN l.time END AS resolved_at,
    l.time AS changed_at,
    l.transitions,
    l.topic, l.broker, l.queue_id, l.client_id, l.evidence, l.explanation, l.first_step, l.parent, l.cause,
    l.main_cause, l.main_client_id, l.main_explanation, l.resolution,
    coalesce(l.absorbed, l.parent IS NOT NULL) AS absorbed
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
    ) t ON t.cluster = a.cluster AND t.group = a.group AND t.incident_id = a.incident_id AND t.last_time = a.time
) l
WHERE l.age = 1
