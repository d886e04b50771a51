-- name: groups
SELECT
    g.cluster, g.group, g.time, g.health, g.members, g.message_model, g.consume_type, g.coverage,
    g.proxied_clients
FROM current_groups g
ORDER BY g.cluster, g.group

-- name: queues
SELECT
    t.cluster, t.group, t.topic, t.broker, t.queue_id, t.owner, t.shared_by, t.status,
    CASE WHEN NOT p.lag_is_stale THEN p.lag END AS lag,
    coalesce(p.lag_is_at_least AND NOT p.lag_is_stale, false) AS lag_is_at_least,
    CASE WHEN NOT p.waiting_is_stale THEN p.waiting_ms END AS waiting_ms,
    CASE WHEN NOT ({lock_is_stale}) THEN {lock_age} END AS lock_age_ms
FROM current_queues t
LEFT JOIN progress_at(from_ms($now)) p
    ON p.cluster = t.cluster AND p.group = t.group AND p.topic = t.topic AND p.broker = t.broker
    AND p.queue_id = t.queue_id
LEFT JOIN client_progress_at(from_ms($now)) c
    ON c.cluster = t.cluster AND c.group = t.group AND c.topic = t.topic AND c.broker = t.broker
    AND c.queue_id = t.queue_id AND c.client_id = t.owner

-- name: topics
SELECT
    q.cluster, q.group, q.topic,
    CAST(sum(q.lag) AS BIGINT) AS lag,
    max(q.waiting_ms) AS waiting_ms,
    count(*) FILTER (q.owner IS NULL AND len(coalesce(q.shared_by, [])) = 0) AS unassigned,
    count(*) FILTER (q.lag IS NULL) AS lag_unknown,
    count(*) FILTER (q.lag_is_at_least) AS lag_at_least,
    list(DISTINCT q.owner) FILTER (q.owner IS NOT NULL) AS owners
FROM queues q
GROUP BY ALL
ORDER BY ALL

-- name: dead_letters
SELECT d.cluster, d.group, d.broker, d.added, d.stored
FROM dead_letters_at(from_ms($now)) d
WHERE NOT d.is_stale
ORDER BY ALL

-- name: unwell
SELECT
    r.cluster, r.group,
    CASE WHEN r.place <= $limit THEN r.topic END AS topic,
    CASE WHEN r.place <= $limit THEN r.broker END AS broker,
    CASE WHEN r.place <= $limit THEN r.queue_id END AS queue_id,
    min(r.badness) AS badness,
    count(*) AS queues,
    CAST(sum(r.lag) AS BIGINT) AS lag,
    max(r.lock_age_ms) AS lock_age_ms
FROM (
    SELECT b.*, row_number() OVER (ORDER BY b.badness, b.lag DESC NULLS LAST, b.cluster, b.group, b.topic, b.broker,
        b.queue_id) AS place
    FROM (
        SELECT q.*, list_position($healths, q.status) - 1 AS badness FROM queues q
        WHERE q.status <> 'OK' AND NOT starts_with(q.topic, '%RETRY%')
    ) b
) r
GROUP BY 1, 2, 3, 4, 5
ORDER BY 1, 2, 3 NULLS LAST, 4, 5

-- name: rebalances
SELECT r.cluster, r.group, r.trigger AS cause, count(*) FILTER (r.time >= from_ms($midnight)) AS today
FROM rebalances r
WHERE r.time >= from_ms($since)
GROUP BY ALL
ORDER BY ALL

-- name: rejected
SELECT t.reason, count(*) FILTER (t.ingest_time >= from_ms($midnight)) AS today
FROM telemetry_rejected t
WHERE t.ingest_time >= from_ms($since)
GROUP BY ALL
ORDER BY ALL

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
