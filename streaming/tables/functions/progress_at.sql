-- The last observed quantities of a queue by an instant: from an answer of the last 15 minutes, or of the last three of
-- its intervals if that is longer. A quantity is stale if its observation is older than two intervals; if there is no
-- row, nothing is known of the queue. A lower bound of the lag is used if the exact lag is stale and older than the
-- bound.
SELECT
    q.cluster, q.group, q.topic, q.broker, q.queue_id,
    CASE WHEN q.is_bound THEN q.bound ELSE q.lag END AS lag,
    q.is_bound AS lag_is_at_least,
    CASE WHEN q.is_bound THEN q.bound_time ELSE q.lag_time END AS lag_time,
    epoch_ms(instant) - epoch_ms(CASE WHEN q.is_bound THEN q.bound_time ELSE q.lag_time END) AS lag_age_ms,
    epoch_ms(instant) - epoch_ms(CASE WHEN q.is_bound THEN q.bound_time ELSE q.lag_time END)
        > 2 * CASE WHEN q.is_bound THEN q.bound_interval_ms ELSE q.lag_interval_ms END AS lag_is_stale,
    CASE WHEN q.is_bound THEN q.bound_in_flight ELSE q.in_flight END AS in_flight,
    CASE
        WHEN q.is_bound AND q.bound_in_flight > 0 THEN q.bound_in_flight_since
        WHEN NOT q.is_bound AND q.in_flight > 0 THEN q.in_flight_since
    END AS in_flight_since,
    CASE WHEN NOT q.is_bound THEN q.ready END AS ready,
    CASE WHEN q.is_bound THEN q.bound_commit ELSE q.commit_offset END AS commit_offset,
    CASE WHEN NOT q.is_bound THEN q.broker_offset END AS broker_offset,
    CASE WHEN q.is_span THEN q.span_ms ELSE q.waiting_ms END AS waiting_ms,
    NOT q.is_span AND q.waiting_ms > 0 AS waiting_is_at_most,
    epoch_ms(instant) - epoch_ms(CASE WHEN q.is_span THEN q.span_time ELSE q.waiting_time END) AS waiting_age_ms,
    epoch_ms(instant) - epoch_ms(CASE WHEN q.is_span THEN q.span_time ELSE q.waiting_time END)
        > 2 * CASE WHEN q.is_span THEN q.span_interval_ms ELSE q.waiting_interval_ms END AS waiting_is_stale,
    q.commit_at, q.lock_at, q.pull_at,
    epoch_ms(instant) - epoch_ms(q.hook_time) AS hook_age_ms,
    epoch_ms(instant) - epoch_ms(q.hook_time) > 2 * q.hook_interval_ms AS hook_is_stale
FROM (
    SELECT
        s.*,
        s.bound_time IS NOT NULL AND (
            s.lag_time IS NULL
            OR epoch_ms(instant) - epoch_ms(s.lag_time) > 2 * s.lag_interval_ms AND s.bound_time > s.lag_time
        ) AS is_bound,
        s.span_time IS NOT NULL AND (
            s.waiting_ms IS NULL
            OR epoch_ms(instant) - epoch_ms(s.span_time) <= 2 * s.span_interval_ms
            OR s.span_time > s.waiting_time
        ) AS is_span
    FROM (
        SELECT
            o.cluster, o.group, o.topic, o.broker, o.queue_id,
            max_by(o.lag, o.rank) FILTER (WHERE o.is_exact) AS lag,
            max(o.time) FILTER (WHERE o.is_exact) AS lag_time,
            max_by(o.interval_ms, o.rank) FILTER (WHERE o.is_exact) AS lag_interval_ms,
            nullif(max_by(coalesce(o.in_flight, -1), o.rank) FILTER (WHERE o.is_exact), -1) AS in_flight,
            max_by(o.in_flight_since, o.rank) FILTER (WHERE o.is_exact AND o.in_flight > 0) AS in_flight_since,
            nullif(max_by(coalesce(o.ready, -1), o.rank) FILTER (WHERE o.is_exact), -1) AS ready,
            max_by(o.lag, o.rank) FILTER (WHERE o.lag_is_at_least AND o.lag IS NOT NULL) AS bound,
            max(o.time) FILTER (WHERE o.lag_is_at_least AND o.lag IS NOT NULL) AS bound_time,
            max_by(o.interval_ms, o.rank) FILTER (WHERE o.lag_is_at_least AND o.lag IS NOT NULL) AS bound_interval_ms,
            nullif(
                max_by(coalesce(o.in_flight, -1), o.rank) FILTER (WHERE o.lag_is_at_least AND o.lag IS NOT NULL), -1
            ) AS bound_in_flight,
            max_by(o.in_flight_since, o.rank) FILTER (WHERE o.lag_is_at_least AND o.in_flight > 0)
                AS bound_in_flight_since,
            max_by(o.commit_offset, o.rank) FILTER (WHERE o.is_exact) AS commit_offset,
            max_by(o.broker_offset, o.rank) FILTER (WHERE o.is_exact) AS broker_offset,
            max_by(o.commit_offset, o.rank) FILTER (WHERE o.lag_is_at_least AND o.lag IS NOT NULL) AS bound_commit,
            nullif(max_by(coalesce(o.waiting_ms, -1), o.rank) FILTER (WHERE o.is_bounded), -1) AS waiting_ms,
            max(o.time) FILTER (WHERE o.is_bounded) AS waiting_time,
            max_by(o.interval_ms, o.rank) FILTER (WHERE o.is_bounded) AS waiting_interval_ms,
            max_by(o.waiting_ms, o.rank) FILTER (WHERE o.is_span) AS span_ms,
            max(o.time) FILTER (WHERE o.is_span) AS span_time,
            max_by(o.interval_ms, o.rank) FILTER (WHERE o.is_span) AS span_interval_ms,
            max(o.time) FILTER (WHERE o.source = 'HOOK') AS hook_time,
            max_by(o.interval_ms, o.rank) FILTER (WHERE o.source = 'HOOK') AS hook_interval_ms,
            max(o.commit_at) AS commit_at,
            max(o.lock_at) AS lock_at,
            max(o.pull_at) AS pull_at
        FROM (
            SELECT
                p.*,
                p.lag IS NOT NULL AND NOT coalesce(p.lag_is_at_least, false) AS is_exact,
                p.waiting_ms IS NOT NULL AND p.kind = 'CONSUME_TIME_SPAN' AS is_span,
                p.kind = 'CONSUME_STATS' AS is_bounded
            FROM brokers_seen_at(instant) p
            WHERE p.kind <> 'TOPIC_STATS'
        ) o
        GROUP BY o.cluster, o.group, o.topic, o.broker, o.queue_id
    ) s
) q
