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
unreachable AS (
    SELECT
        i.subject AS broker,
        min(epoch_ms(i.changed_at) - CAST(json_extract_string(i.evidence, '$.silent_ms') AS BIGINT)) AS since
    FROM incidents_at(from_ms($instant)) i
    WHERE i.cluster = $cluster AND i.code = 'BROKER_UNREACHABLE' AND i.cleared_at IS NULL
    GROUP BY i.subject
),
named AS (
    SELECT q.broker FROM queues_at(from_ms($instant)) q
    WHERE q.cluster = $cluster AND q.group = $group AND NOT starts_with(q.topic, '%RETRY%')
    UNION
    SELECT a.broker FROM answers a WHERE a.type <> 'BROKER_STATUS'
)
SELECT
    n.broker, o.asked_at, o.answered_at,
    CASE WHEN o.silent_since IS NOT NULL THEN least(o.silent_since, coalesce(u.since, o.silent_since)) END
        AS silent_since,
    coalesce(o.remark, '') AS remark
FROM named n
LEFT JOIN of_broker o ON o.broker = n.broker
LEFT JOIN unreachable u ON u.broker = n.broker
WHERE EXISTS (SELECT 1 FROM answers a)
ORDER BY n.broker
