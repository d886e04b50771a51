-- An incident after its last transition by an instant; `resolved_at` is null if it was open. Cause, client, sentence, next
-- step and evidence are of one transition, `judged_at`: the last one at the worst severity of the cause that held longest.
-- A person closes an incident and those that it absorbs; `cleared_at` is null while the condition of an incident holds,
-- whether it is closed or not.
WITH closed AS (SELECT c.* FROM closed_at(instant) c)
SELECT
    l.cluster, l.group, l.incident_id, l.code, l.verdict_sub_cause AS sub_cause, l.severity, l.subject, l.opened_at,
    CASE WHEN l.is_closed THEN greatest(l.closed_at, l.opened_at) ELSE l.cleared_at END AS resolved_at,
    l.time AS changed_at,
    l.transitions,
    l.topic, l.broker, l.queue_id, l.verdict_client_id AS client_id, l.verdict_evidence AS evidence,
    l.verdict_explanation AS explanation, l.verdict_first_step AS first_step, l.judged_at, l.parent, l.cause,
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
            coalesce(o.resolution, p.resolution) AS closed,
            coalesce(v.sub_cause, h.sub_cause) AS verdict_sub_cause,
            CASE WHEN v.seq IS NULL THEN h.client_id ELSE v.client_id END AS verdict_client_id,
            coalesce(v.evidence, h.evidence) AS verdict_evidence,
            coalesce(v.explanation, h.explanation) AS verdict_explanation,
            coalesce(v.first_step, h.first_step) AS verdict_first_step,
            coalesce(v.time, h.time) AS judged_at
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
        LEFT JOIN (
            SELECT
                b.*,
                row_number() OVER (
                    PARTITION BY b.cluster, b.group, b.incident_id, b.sub_cause ORDER BY b.time DESC
                ) AS nth
            FROM anomalies b
            JOIN (
                SELECT
                    w.cluster, w.group, w.incident_id, w.sub_cause,
                    coalesce(
                        max(CASE WHEN w.severity = 'critical' THEN w.seq END),
                        max(CASE WHEN w.severity = 'warning' THEN w.seq END),
                        max(w.seq)
                    ) AS worst_seq
                FROM anomalies w
                WHERE w.time <= instant AND w.transition <> 'RESOLVED'
                GROUP BY w.cluster, w.group, w.incident_id, w.sub_cause
            ) s
                ON s.cluster = b.cluster AND s.group = b.group AND s.incident_id = b.incident_id
                AND s.sub_cause = b.sub_cause AND s.worst_seq = b.seq
        ) v
            ON v.cluster = h.cluster AND v.group = h.group AND v.incident_id = h.incident_id
            AND v.nth = 1 AND v.sub_cause = CASE WHEN h.main_explanation = '' THEN h.sub_cause ELSE h.main_cause END
        LEFT JOIN closed o ON o.incident_id = h.incident_id
        LEFT JOIN closed p ON p.incident_id = h.parent AND coalesce(h.absorbed, true)
        WHERE h.age = 1
    ) d
) l
