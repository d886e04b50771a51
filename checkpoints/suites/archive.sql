-- One row for each partition of the log: the rows that the archive has of what its finished batches have read, accepted
-- and rejected together, since the first one that the log received after `since`. What the operator lost
-- of its state is no row of the log.
WITH log AS (
    SELECT unnest($log, recursive := true)
),
kept AS (
    SELECT t.partition, t.offset, t.ingest_time FROM telemetry t WHERE t.date >= CAST($first_day AS DATE)
    UNION ALL
    SELECT r.partition, r.offset, r.ingest_time FROM telemetry_rejected r WHERE r.reason <> 'state_lost'
),
begins AS (
    SELECT k.partition, min(k.offset) AS first FROM kept k WHERE k.ingest_time >= from_ms($since) GROUP BY k.partition
),
followed AS (
    SELECT k.partition, k.offset, lead(k.offset, 1, l.archived) OVER (PARTITION BY k.partition ORDER BY k.offset) AS next
    FROM kept k
    JOIN begins b ON b.partition = k.partition AND k.offset >= b.first
    JOIN log l ON l.partition = k.partition AND k.offset < l.archived
),
gaps AS (
    SELECT
        f.partition,
        count(*) AS rows,
        min(CASE WHEN f.next = f.offset THEN f.offset END) AS doubled,
        count(*) FILTER (f.next = f.offset) AS doubled_rows,
        -- In a log of files the next row may be the first one of the next file.
        min(CASE WHEN f.next > f.offset + 1 AND f.next <> (f.offset // $file_rows + 1) * $file_rows
            THEN f.offset + 1 END) AS missing,
        arg_min(f.next - 1, f.offset) FILTER (f.next > f.offset + 1
            AND f.next <> (f.offset // $file_rows + 1) * $file_rows) AS missing_to,
        count(*) FILTER (f.next > f.offset + 1 AND f.next <> (f.offset // $file_rows + 1) * $file_rows) AS missing_gaps
    FROM followed f
    GROUP BY f.partition
)
SELECT
    l.partition,
    coalesce(g.rows, 0) AS rows,
    CASE WHEN g.missing IS NOT NULL THEN format('partition {}: {} to {}, {} gaps in all', l.partition, g.missing,
        g.missing_to, g.missing_gaps) END AS missing,
    CASE WHEN g.doubled IS NOT NULL THEN format('partition {}: {}, {} rows in all', l.partition, g.doubled,
        g.doubled_rows) END AS doubled,
    greatest(l.log_begin - l.archived, 0) AS rows_deleted,
    CASE WHEN l.log_end > l.archived THEN ($now - epoch_ms(n.last)) / 1000.0
        WHEN l.log_end IS NOT NULL THEN 0.0 END AS behind_seconds
FROM log l
LEFT JOIN gaps g ON g.partition = l.partition
LEFT JOIN (
    SELECT k.partition, max(k.ingest_time) AS last FROM kept k WHERE k.ingest_time >= from_ms($since)
    GROUP BY k.partition
) n ON n.partition = l.partition
ORDER BY l.partition
