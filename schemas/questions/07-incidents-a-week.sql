-- How many incidents opened in each week, by rule and main cause? Those that follow from another one do not count.
SELECT date_trunc('week', opened_at) AS week, code, sub_cause, count(*) AS incidents
FROM (
    SELECT code, main_cause AS sub_cause, opened_at, absorbed, parent
    FROM anomalies
    QUALIFY row_number() OVER (PARTITION BY cluster, "group", incident_id ORDER BY seq DESC) = 1
)
WHERE NOT coalesce(absorbed, parent IS NOT NULL)
GROUP BY week, code, sub_cause
ORDER BY week, incidents DESC, code, sub_cause
