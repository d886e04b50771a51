-- The last observed quantities of a queue by an instant: from an answer of the last 15 minutes, or of the last three of
-- its intervals if that is longer. A quantity is stale if its observation is older than two intervals; if there is no
-- row, nothing is known of the queue.
--
-- The commit is the newest one that any source has seen. A lag that a broker answered is exact for the commit and the
-- newest offset of that answer. If a hook has seen another commit since, the lag is a lower bound: the highest offset
-- known, less the new commit. A hook's own bound is used if the exact lag is stale and older than the bound.
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
    CASE  -- of another commit it says nothing
        WHEN q.hook_commit = CASE WHEN q.is_bound THEN q.bound_commit ELSE q.commit_offset END THEN q.commit_at
    END AS commit_at,
    q.lock_at, q.pull_at,
    epoch_ms(instant) - epoch_ms(q.hook_time) AS hook_age_ms,
    epoch_ms(instant) - epoch_ms(q.hook_time) > 2 * q.hook_interval_ms AS hook_is_stale
FROM (
    SELECT
        m.cluster, m.group, m.topic, m.broker, m.queue_id,
        m.lag, m.lag_time, m.lag_interval_ms, m.in_flight, m.in_flight_since, m.ready, m.commit_offset, m.broker_offset,
        CASE WHEN m.is_moved THEN greatest(m.broker_offset, m.hook_commit, m.pulled) - m.hook_commit ELSE m.bound END
            AS bound,
        CASE WHEN m.is_moved THEN m.hook_time ELSE m.bound_time END AS bound_time,
        CASE WHEN m.is_moved THEN m.hook_interval_ms ELSE m.bound_interval_ms END AS bound_interval_ms,
        CASE WHEN m.is_moved THEN m.hook_commit ELSE m.bound_commit END AS bound_commit,
        CASE WHEN NOT m.is_moved THEN m.bound_in_flight END AS bound_in_flight,
        m.bound_in_flight_since,
        m.is_moved OR m.bound_time IS NOT NULL AND (
            m.lag_time IS NULL
            OR epoch_ms(instant) - epoch_ms(m.lag_time) > 2 * m.lag_interval_ms AND m.bound_time > m.lag_time
        ) AS is_bound,
        m.waiting_ms, m.waiting_time, m.waiting_interval_ms, m.span_ms, m.span_time, m.span_interval_ms,
        m.span_time IS NOT NULL AND (
            m.waiting_ms IS NULL
            OR epoch_ms(instant) - epoch_ms(m.span_time) <= 2 * m.span_interval_ms
            OR m.span_time > m.waiting_time
        ) AS is_span,
        m.hook_commit, m.commit_at, m.lock_at, m.pull_at, m.hook_time, m.hook_interval_ms
    FROM (
        SELECT
            s.*,
            coalesce(s.commit_at > s.lag_time AND s.hook_commit <> coalesce(s.commit_offset, -1), false) AS is_moved,
            CASE WHEN s.pull_at > s.lag_time THEN s.hook_pulled END AS pulled
        FROM (
            SELECT
                o.cluster, o.group, o.topic, o.broker, o.queue_id,
                max_by(o.lag, o.rank) FILTER (WHERE o.is_exact) AS lag,
                max(o.time) FILTER (WHERE o.is_exact) AS lag_time,
                max_by(o.interval_ms, o.rank) FILTER (WHERE o.is_exact) AS lag_interval_ms,
                nullif(max_by(coalesce(o.in_flight, -1), o.rank) FILTER (WHERE o.is_exact), -1) AS in_flight,
                max_by(o.in_flight_since, o.rank) FILTER (WHERE o.is_exact AND o.in_flight > 0) AS in_flight_since,
                nullif(max_by(coalesce(o.ready, -1), o.rank) FILTER (WHERE o.is_exact), -1) AS ready,
                max_by(o.commit_offset, o.rank) FILTER (WHERE o.is_exact) AS commit_offset,
                max_by(o.broker_offset, o.rank) FILTER (WHERE o.is_exact) AS broker_offset,
                max_by(o.lag, o.rank) FILTER (WHERE o.is_lower) AS bound,
                max(o.time) FILTER (WHERE o.is_lower) AS bound_time,
                max_by(o.interval_ms, o.rank) FILTER (WHERE o.is_lower) AS bound_interval_ms,
                nullif(max_by(coalesce(o.in_flight, -1), o.rank) FILTER (WHERE o.is_lower), -1) AS bound_in_flight,
                max_by(o.in_flight_since, o.rank) FILTER (WHERE o.lag_is_at_least AND o.in_flight > 0)
                    AS bound_in_flight_since,
                max_by(o.commit_offset, o.rank) FILTER (WHERE o.is_lower) AS bound_commit,
                nullif(max_by(coalesce(o.waiting_ms, -1), o.rank) FILTER (WHERE o.is_bounded), -1) AS waiting_ms,
                max(o.time) FILTER (WHERE o.is_bounded) AS waiting_time,
                max_by(o.interval_ms, o.rank) FILTER (WHERE o.is_bounded) AS waiting_interval_ms,
                max_by(o.waiting_ms, o.rank) FILTER (WHERE o.is_span) AS span_ms,
                max(o.time) FILTER (WHERE o.is_span) AS span_time,
                max_by(o.interval_ms, o.rank) FILTER (WHERE o.is_span) AS span_interval_ms,
                max(o.time) FILTER (WHERE o.source = 'HOOK') AS hook_time,
                max_by(o.interval_ms, o.rank) FILTER (WHERE o.source = 'HOOK') AS hook_interval_ms,
                max_by(o.commit_offset, (o.commit_at, o.rank)) FILTER (WHERE o.commit_at IS NOT NULL) AS hook_commit,
                max_by(o.pull_offset, (o.pull_at, o.rank)) FILTER (WHERE o.pull_at IS NOT NULL) AS hook_pulled,
                max(o.commit_at) AS commit_at,
                max(o.lock_at) AS lock_at,
                max(o.pull_at) AS pull_at
            FROM (
                SELECT
                    p.*,
                    p.lag IS NOT NULL AND NOT coalesce(p.lag_is_at_least, false) AS is_exact,
                    p.lag IS NOT NULL AND coalesce(p.lag_is_at_least, false) AS is_lower,
                    p.waiting_ms IS NOT NULL AND p.kind = 'CONSUME_TIME_SPAN' AS is_span,
                    p.kind = 'CONSUME_STATS' AS is_bounded
                FROM brokers_seen_at(instant) p
                WHERE p.kind <> 'TOPIC_STATS'
            ) o
            GROUP BY o.cluster, o.group, o.topic, o.broker, o.queue_id
        ) s
    ) m
) q
