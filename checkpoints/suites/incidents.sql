-- One row for each incident with a transition since `since`, with all of its transitions.
WITH touched AS (
    SELECT DISTINCT a.cluster, a.group, a.incident_id FROM anomalies a WHERE a.known_at >= from_ms($since)
),
transitions AS (
    SELECT
        a.cluster, a.group, a.incident_id, a.code, a.subject, a.transition, a.time, a.opened_at, a.seq,
        lag(a.transition) OVER incident AS before
    FROM anomalies a
    SEMI JOIN touched t ON t.cluster = a.cluster AND t.group = a.group AND t.incident_id = a.incident_id
    WINDOW incident AS (PARTITION BY a.cluster, a.group, a.incident_id ORDER BY a.seq)
),
incidents_touched AS (
    SELECT
        t.cluster, t.group, t.incident_id, any_value(t.code) AS code, any_value(t.subject) AS subject,
        min(CASE WHEN (t.transition = 'OPENED') <> (t.before IS NULL)
            THEN format('{} at {}, {}', t.transition, t.time, coalesce('after ' || t.before, 'its first transition'))
            END) AS opened_wrongly,
        min(CASE WHEN t.before = 'RESOLVED' THEN format('{} at {}, after RESOLVED', t.transition, t.time)
            WHEN t.time < t.opened_at THEN format('{} at {}, opened at {}', t.transition, t.time, t.opened_at)
            END) AS resolved_wrongly,
        bool_or(t.transition = 'RESOLVED') AS is_resolved
    FROM transitions t
    GROUP BY ALL
)
SELECT
    concat_ws(' ', i.cluster, nullif(i.group, ''), i.code, nullif(i.subject, ''), i.incident_id) AS subject,
    i.incident_id || ' ' || i.opened_wrongly AS opened_wrongly,
    i.incident_id || ' ' || i.resolved_wrongly AS resolved_wrongly,
    CASE WHEN NOT i.is_resolved AND count(*) FILTER (NOT i.is_resolved) OVER same > 1
        THEN concat_ws(' ', i.cluster, nullif(i.group, ''), i.code, nullif(i.subject, '')) END AS open_twice
FROM incidents_touched i
WINDOW same AS (PARTITION BY i.cluster, i.group, i.code, i.subject)
