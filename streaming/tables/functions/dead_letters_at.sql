-- The dead-letter topic of each group at each broker that was asked for it, as last answered by an instant, within the
-- look-back of `seen_at`: how many messages were ever added (the offset after the newest), how many are still stored,
-- and when the newest was stored, by the broker's clock. The row is stale if the answer is older than two intervals; if
-- there is no row, nothing is known.
SELECT
    q.cluster, q.group, q.topic, q.broker,
    CAST(q.added AS BIGINT) AS added,
    CAST(q.stored AS BIGINT) AS stored,
    CASE WHEN q.stored > 0 THEN q.newest_at END AS newest_at,
    q.time,
    epoch_ms(instant) - epoch_ms(q.time) AS age_ms,
    epoch_ms(instant) - epoch_ms(q.time) > 2 * q.interval_ms AS is_stale
FROM (
    SELECT
        o.cluster, o.group, o.topic, o.broker,
        sum(o.broker_offset) AS added,
        sum(o.broker_offset - o.min_offset) AS stored,
        max(o.stored_at) AS newest_at,
        min(o.time) AS time,
        max(o.interval_ms) AS interval_ms
    FROM (
        SELECT
            p.cluster, p.group, p.topic, p.broker, p.queue_id,
            max_by(p.broker_offset, p.rank) AS broker_offset,
            max_by(p.min_offset, p.rank) AS min_offset,
            max_by(p.stored_at, p.rank) AS stored_at,
            max_by(p.interval_ms, p.rank) AS interval_ms,
            max(p.time) AS time
        FROM brokers_seen_at(instant) p
        WHERE p.kind = 'TOPIC_STATS'
        GROUP BY p.cluster, p.group, p.topic, p.broker, p.queue_id
    ) o
    GROUP BY o.cluster, o.group, o.topic, o.broker
) q
