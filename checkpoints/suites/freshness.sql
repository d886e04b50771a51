-- One row for each cluster with telemetry within the ten minutes before the newest: how far the newest derived row is
-- behind it, by the stamps of the log. Each group and queue has a row at least every five minutes.
WITH archived AS (
    SELECT t.cluster, max(t.ingest_time) AS last
    FROM telemetry t
    WHERE t.ingest_time >= from_ms($since) AND t.date >= CAST($first_day AS DATE)
    GROUP BY t.cluster
),
derived AS (
    SELECT d.cluster, max(d.known_at) AS last
    FROM (
        SELECT g.cluster, g.known_at FROM group_state g WHERE g.known_at >= from_ms($before) UNION ALL
        SELECT q.cluster, q.known_at FROM queue_state q WHERE q.known_at >= from_ms($before)
    ) d
    GROUP BY d.cluster
)
SELECT a.cluster, (epoch_ms(a.last) - epoch_ms(d.last)) / 1000.0 AS operator_behind_seconds
FROM archived a
JOIN derived d ON d.cluster = a.cluster
