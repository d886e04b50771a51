-- One event: the copies of a broadcast, one in each partition, and events that a source sent twice appear only once.
SELECT
    e.date, e.type, e.time, e.cluster, e.broker, e.broker_id, e.source, e.source_id, e.seq, e.group, e.key, e.value,
    e.partition, e.offset, e.ingest_time
FROM (
    SELECT
        t.*,
        row_number() OVER (PARTITION BY t.source_id, t.key, t.seq ORDER BY t.partition, t.offset) AS copy
    FROM telemetry t
) e
WHERE e.copy = 1
