-- One row for each cluster and type of event: its rows in the ten minutes before the newest row, as a multiple of its
-- rows in ten minutes of the hour before. Null if that hour has fewer than 600 of it or than ten minutes of telemetry.
WITH newest AS (
    SELECT max(t.ingest_time) AS last
    FROM telemetry t
    WHERE t.ingest_time >= from_ms($since) AND t.date >= CAST($first_day AS DATE)
),
counted AS (
    SELECT
        t.cluster, t.type,
        t.ingest_time > n.last - INTERVAL '10' MINUTE AS is_new,
        count(*) AS rows
    FROM telemetry t, newest n
    WHERE t.ingest_time > n.last - INTERVAL '70' MINUTE
        AND t.date >= CAST($first_day AS DATE)
    GROUP BY ALL
),
minutes AS (
    SELECT t.cluster, count(DISTINCT date_trunc('minute', t.ingest_time)) AS minutes
    FROM telemetry t, newest n
    WHERE t.ingest_time > n.last - INTERVAL '70' MINUTE AND t.ingest_time <= n.last - INTERVAL '10' MINUTE
        AND t.date >= CAST($first_day AS DATE)
    GROUP BY t.cluster
)
SELECT
    b.cluster || ' ' || b.type AS subject,
    CASE WHEN b.rows >= 600 AND m.minutes >= 10 THEN coalesce(a.rows, 0) / (10.0 * b.rows / m.minutes) END AS times
FROM counted b
JOIN minutes m ON m.cluster = b.cluster
LEFT JOIN counted a ON a.cluster = b.cluster AND a.type = b.type AND a.is_new
WHERE NOT b.is_new
