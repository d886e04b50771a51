-- Each incident once, as its last transition by an instant (epoch milliseconds) had left it; `resolved_at` is null while
-- it was open.
SELECT
    l.cluster, l.group, l.incident_id, l.code, l.sub_cause, l.severity, l.subject, l.opened_at,
    CASE WHEN l.transition = 'RESOLVED' THEN l.time END AS resolved_at,
    l.time AS changed_at,
    l.transitions,
    l.topic, l.broker, l.queue_id, l.client_id, l.evidence, l.explanation, l.first_step, l.parent, l.cause
FROM (
    SELECT
        a.*,
        row_number() OVER (PARTITION BY a.cluster, a.group, a.incident_id ORDER BY a.time DESC, a.seq DESC) AS age,
        count(*) OVER (PARTITION BY a.cluster, a.group, a.incident_id) AS transitions
    FROM anomalies a
    WHERE a.time <= instant
) l
WHERE l.age = 1
