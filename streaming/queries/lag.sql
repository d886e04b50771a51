-- name: longest_interval
-- The longest interval of a period that is so long that its observations hold beyond the usual time.
SELECT max(p.interval_ms) AS interval_ms
FROM (
    SELECT r.cluster, r.group, r.date, r.time, r.interval_ms FROM queue_progress r
    UNION ALL
    SELECT m.cluster, m.group, m.date, m.time, m.interval_ms FROM queue_progress_minute m
    UNION ALL
    SELECT f.cluster, f.group, f.date, f.time, f.interval_ms FROM queue_progress_5min f
) p
WHERE p.cluster = $cluster AND p.group = $group AND p.interval_ms > 300000
    AND p.time > from_ms($since - $back) AND p.time <= from_ms($until + 300000)
    AND p.date BETWEEN day_of($since - $back) AND day_of($until + 300000)

-- name: lag
-- An observation holds at the ends of slices until it is stale; of those of one queue the newest counts, by its rank. An
-- exact lag holds as long as a bound, but only to discard bounds that are older.
WITH seen AS MATERIALIZED (
    SELECT
        o.cluster, o.group, o.topic, o.broker, o.queue_id, epoch_ms(o.time) AS time, o.rank,
        o.lag, o.waiting_ms, o.interval_ms,
        o.lag IS NOT NULL AND NOT coalesce(o.lag_is_at_least, false) AS is_exact,
        o.lag IS NOT NULL AND coalesce(o.lag_is_at_least, false) AS is_bound,
        o.waiting_ms IS NOT NULL AND o.kind = 'CONSUME_TIME_SPAN' AS is_span,
        o.waiting_ms IS NOT NULL AND o.kind <> 'CONSUME_TIME_SPAN' AS is_wait
    FROM ({observed}) o
    WHERE o.time > from_ms($since - $back) AND o.time <= from_ms($until) AND {counts_for_lag}
),
existing AS (
    SELECT r.range AS slice, q.cluster, q.group, q.topic, count(*) AS queues
    FROM range(0, $slices + 1) r
    JOIN (
        SELECT s.cluster, s.group, s.topic, min(s.time) AS first, max(s.time) AS last
        FROM seen s
        GROUP BY s.cluster, s.group, s.topic, s.broker, s.queue_id
    ) q ON $since + r.range * $step BETWEEN q.first AND q.last + $back
    GROUP BY ALL
),
held AS (
    SELECT
        s.*, $since + s.slice * $step <= s.time + 2 * s.interval_ms AS is_fresh
    FROM (
        SELECT
            t.*,
            unnest(range(
                greatest(0, CAST(ceil((t.time - $since) / $step) AS BIGINT)),
                1 + least($slices, (t.time + 2 * greatest(
                    t.interval_ms, CASE WHEN t.is_exact THEN b.interval_ms END
                ) - $since) // $step)
            )) AS slice
        FROM seen t, (SELECT max(c.interval_ms) AS interval_ms FROM seen c WHERE c.is_bound) b
    ) s
),
last AS (
    SELECT
        h.slice, h.cluster, h.group, h.topic,
        coalesce(
            max_by(h.lag, h.rank) FILTER (h.is_exact AND h.is_fresh),
            CASE WHEN coalesce(max(h.rank) FILTER (h.is_exact) < max(h.rank) FILTER (h.is_bound), true)
                THEN max_by(h.lag, h.rank) FILTER (h.is_bound) END
        ) AS lag,
        count(*) FILTER (h.is_exact AND h.is_fresh) = 0 AS is_bound,
        coalesce(
            max_by(h.waiting_ms, h.rank) FILTER (h.is_span AND h.is_fresh),
            max_by(h.waiting_ms, h.rank) FILTER (h.is_wait AND h.is_fresh)
        ) AS waiting_ms
    FROM held h
    GROUP BY h.slice, h.cluster, h.group, h.topic, h.broker, h.queue_id
),
known AS (
    SELECT
        l.slice, l.cluster, l.group, l.topic, CAST(sum(l.lag) AS BIGINT) AS lag, count(l.lag) AS queues, max(l.waiting_ms) AS waiting_ms,
        count(l.lag) FILTER (l.is_bound) > 0 AS lag_is_at_least
    FROM last l
    GROUP BY l.slice, l.cluster, l.group, l.topic
)
SELECT
    e.cluster, e.group, $since + e.slice * $step AS time, e.topic, k.lag, coalesce(k.lag_is_at_least, false) AS lag_is_at_least,
    e.queues - coalesce(k.queues, 0) AS lag_unknown, k.waiting_ms
FROM existing e
LEFT JOIN known k ON k.slice = e.slice AND k.cluster = e.cluster AND k.group = e.group AND k.topic = e.topic
ORDER BY e.slice, e.cluster, e.group, e.topic
