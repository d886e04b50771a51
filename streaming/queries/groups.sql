-- name: groups
SELECT
    g.*,
    coalesce(q.queues, 0) AS queues,
    coalesce(q.unowned, 0) AS unowned,
    q.lag, coalesce(q.lag_is_at_least, false) AS lag_is_at_least, coalesce(q.lag_unknown, 0) AS lag_unknown,
    coalesce(q.lag_stale, 0) AS lag_stale, q.lag_age_ms, q.owned,
    r.last_rebalance
FROM groups_at(from_ms($instant)) g
LEFT JOIN (
    SELECT
        s.cluster, s.group,
        count(*) FILTER (NOT starts_with(s.topic, '%RETRY%')) AS queues,
        count(*) FILTER (s.owner IS NULL AND NOT starts_with(s.topic, '%RETRY%')) AS unowned,
        CAST(sum(p.lag) FILTER (NOT p.lag_is_stale) AS BIGINT) AS lag,
        bool_or(p.lag_is_at_least AND NOT p.lag_is_stale) AS lag_is_at_least,
        count(*) FILTER (p.lag IS NULL OR p.lag_is_stale) AS lag_unknown,
        count(*) FILTER (p.lag_is_stale) AS lag_stale,
        max(p.lag_age_ms) FILTER (NOT p.lag_is_stale) AS lag_age_ms,
        histogram(s.owner) AS owned
    FROM queues_at(from_ms($instant)) s
    LEFT JOIN progress_at(from_ms($now)) p
        ON p.cluster = s.cluster AND p.group = s.group AND p.topic = s.topic AND p.broker = s.broker
        AND p.queue_id = s.queue_id
    WHERE {counts_for_lag}
        AND ($cluster IS NULL OR s.cluster = $cluster) AND ($group IS NULL OR s.group = $group)
    GROUP BY s.cluster, s.group
) q ON q.cluster = g.cluster AND q.group = g.group
LEFT JOIN (
    SELECT b.cluster, b.group, max(b.start_time) AS last_rebalance
    FROM rebalances b
    WHERE b.time <= from_ms($instant)
    GROUP BY b.cluster, b.group
) r ON r.cluster = g.cluster AND r.group = g.group
WHERE ($cluster IS NULL OR g.cluster = $cluster) AND ($group IS NULL OR g.group = $group)
ORDER BY g.cluster, g.group

-- name: last_state
SELECT t.members, t.message_model, t.consume_type, t.orderly, t.strategy, t.health, t.health_reason, t.coverage, t.time
FROM groups_at(from_ms($instant)) t
WHERE t.cluster = $cluster AND t.group = $group

-- name: heard
-- How far the archive is, which may be behind the other tables, and the interval of the group's collector.
SELECT
    (
        SELECT max(e.time) FROM telemetry e
        WHERE e.cluster = $cluster AND e.time > from_ms($now - $back) AND e.time <= from_ms($now)
            AND e.date BETWEEN day_of($now - $back) AND day_of($now)
    ) AS heard,
    (
        SELECT max_by(p.interval_ms, p.time) FROM queue_progress p
        WHERE p.cluster = $cluster AND p.group = $group AND p.source = 'POLL'
            AND p.time > from_ms($now - $back) AND p.time <= from_ms($now)
            AND p.date BETWEEN day_of($now - $back) AND day_of($now)
    ) AS interval_ms

-- name: brokers
-- The brokers that have queues of a group, or were asked about it: the archive has what was asked lately.
WITH answers AS MATERIALIZED (
    SELECT
        e.broker, epoch_ms(e.time) AS time,
        coalesce(nullif(CAST(json_extract_string(e.value, '$.asked') AS BIGINT), 0), epoch_ms(e.time)) AS asked,
        coalesce(list_contains($silence, CAST(json_extract_string(e.value, '$.error.code') AS BIGINT)), false)
            AS is_silence,
        coalesce(json_extract_string(e.value, '$.error.remark'), '') AS remark, e.type
    FROM telemetry e
    WHERE e.cluster = $cluster AND e.broker <> ''
        AND (e.type = 'BROKER_STATUS' OR (e.group = $group AND e.type IN ('CONSUMER_CONNECTION', 'CONSUME_STATS')))
        AND e.time > from_ms($now - $back) AND e.time <= from_ms($now)
        AND e.date BETWEEN day_of($now - $back) AND day_of($now)
),
-- A broker's status answers for it alone: the group may have had no turn. Its silence is that of all its groups.
requests AS MATERIALIZED (
    SELECT a.* FROM answers a
    WHERE (a.type <> 'BROKER_STATUS' OR a.is_silence) AND NOT starts_with(a.remark, $not_asked)
),
answered AS (
    SELECT r.broker, max(r.time) AS answered_at FROM requests r WHERE NOT r.is_silence GROUP BY r.broker
),
of_broker AS (
    SELECT
        r.broker, max(r.asked) AS asked_at, any_value(s.answered_at) AS answered_at,
        min(r.asked) FILTER (r.time > coalesce(s.answered_at, 0)) AS silent_since,
        arg_max(r.remark, r.time) FILTER (r.is_silence) AS remark
    FROM requests r
    LEFT JOIN answered s ON s.broker = r.broker
    GROUP BY r.broker
),
named AS (
    SELECT q.broker FROM queues_at(from_ms($instant)) q
    WHERE q.cluster = $cluster AND q.group = $group AND NOT starts_with(q.topic, '%RETRY%')
    UNION
    SELECT a.broker FROM answers a WHERE a.type <> 'BROKER_STATUS'
)
SELECT
    n.broker, o.asked_at, o.answered_at, o.silent_since, coalesce(o.remark, '') AS remark
FROM named n
LEFT JOIN of_broker o ON o.broker = n.broker
WHERE EXISTS (SELECT 1 FROM answers a)
ORDER BY n.broker

-- name: failed_messages
-- A retry topic without a message has no lag that is known: nothing was ever committed there.
WITH seen AS (
    SELECT
        o.topic, o.broker, o.queue_id, epoch_ms(o.time) AS time, o.rank, o.interval_ms,
        o.lag, o.broker_offset, o.min_offset, epoch_ms(o.stored_at) AS stored_at
    FROM ({observed}) o
    WHERE o.broker_offset IS NOT NULL
        AND o.time > from_ms($since - $back) AND o.time <= from_ms($until)
),
of_queue AS (
    SELECT
        s.topic, s.broker, max(s.time) AS time, max_by(s.interval_ms, s.rank) AS interval_ms,
        max_by({'lag': s.lag, 'offset': s.broker_offset, 'min': s.min_offset, 'at': s.stored_at}, s.rank) AS last,
        coalesce(
            max_by({'offset': s.broker_offset, 'time': s.time}, s.rank) FILTER (s.time <= $since),
            min_by({'offset': s.broker_offset, 'time': s.time}, s.rank)
        ) AS first
    FROM seen s
    GROUP BY s.topic, s.broker, s.queue_id
)
SELECT
    q.topic, q.broker, q.topic = $dead AS given_up,
    CASE WHEN count(*) = count(q.messages) THEN CAST(sum(q.messages) AS BIGINT) END AS messages,
    CASE WHEN count(*) = count(q.added) THEN CAST(sum(q.added) AS BIGINT) END AS added,
    max(q.since) AS added_since, max(q.newest_at) AS newest_at,
    min(q.time) AS time, $until - min(q.time) AS age_ms, bool_or($until - q.time > 2 * q.interval_ms) AS is_stale
FROM (
    SELECT
        f.topic, f.broker, f.time, f.interval_ms, f.first.time AS since, f.last.at AS newest_at,
        CASE
            WHEN f.topic = $dead THEN f.last.offset - f.last.min
            WHEN f.last.offset = 0 THEN 0
            ELSE f.last.lag
        END AS messages,
        CASE WHEN f.last.offset >= f.first.offset THEN f.last.offset - f.first.offset END AS added
    FROM of_queue f
) q
GROUP BY q.topic, q.broker
ORDER BY given_up, q.broker
