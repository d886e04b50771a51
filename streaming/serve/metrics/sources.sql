-- name: archived
-- Each batch of the archive writes its latest ingest time there: a small table.
SELECT max(q.time) AS time FROM quality_results q

-- name: last_events
SELECT
    e.cluster, e.source, regexp_replace(e.source_id, '@[0-9]+$', '') AS instance,
    max(e.time) AS time, max(e.ingest_time) AS ingest_time
FROM telemetry e
WHERE e.ingest_time >= from_ms($since)
GROUP BY ALL
