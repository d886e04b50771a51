-- How long did incidents of each rule stay open, and how many still are?
SELECT
    code, count(*) AS incidents, count(*) FILTER (WHERE transition <> 'RESOLVED') AS open_now,
    median(epoch_ms(time) - epoch_ms(opened_at)) FILTER (WHERE transition = 'RESOLVED') / 1e3 AS median_seconds,
    max(epoch_ms(time) - epoch_ms(opened_at)) FILTER (WHERE transition = 'RESOLVED') / 1e3 AS longest_seconds
FROM (
    SELECT code, transition, opened_at, time
    FROM anomalies
    QUALIFY row_number() OVER (PARTITION BY cluster, "group", incident_id ORDER BY seq DESC) = 1
)
GROUP BY code
ORDER BY code
