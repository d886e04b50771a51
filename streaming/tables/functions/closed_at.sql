-- An incident that a person had closed by an instant, and that was no worse then than when it was closed. Not one that
-- had been resolved before.
SELECT n.incident_id, n.closed_at, concat('closed by ', n.author, ': ', n.reason) AS resolution
FROM (
    SELECT
        a.incident_id, a.severity, a.transition, a.time,
        c.time AS closed_at, c.severity AS closed_severity, c.author, c.reason,
        row_number() OVER (PARTITION BY a.cluster, a.group, a.incident_id ORDER BY a.time DESC, a.seq DESC) AS age
    FROM anomalies a
    JOIN (
        SELECT k.*, row_number() OVER (PARTITION BY k.control_id ORDER BY k.time DESC, k.control DESC) AS age
        FROM alert_controls k
        WHERE k.control IN ('CLOSE', 'REOPEN') AND k.time <= instant
    ) c ON c.control_id = a.incident_id
    WHERE c.age = 1 AND c.control = 'CLOSE' AND a.time <= instant
) n
WHERE n.age = 1 AND (n.severity = n.closed_severity OR n.closed_severity = 'critical' OR n.severity = 'info')
    AND (n.transition <> 'RESOLVED' OR n.time > n.closed_at)
