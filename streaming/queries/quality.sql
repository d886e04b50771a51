-- name: last_results
SELECT
    q.suite, q.expectation, q.column, q.success, q.observed, q.unexpected_count, q.row_count, q.time, q.checked_at,
    coalesce(q.stops_job, false) AS stops_job, q.why
FROM quality_results q
JOIN (
    SELECT l.suite, arg_max(l.batch_id, coalesce(l.checked_at, l.time)) AS batch_id
    FROM quality_results l
    GROUP BY l.suite
) b ON b.suite = q.suite AND b.batch_id = q.batch_id
ORDER BY q.success, q.suite, q.column, q.expectation
