-- The last report of each client about each of its queues by an instant (epoch milliseconds), as far back as `seen_at`
-- looks. Its stamps are at the latest then; stale where its answer is older than two intervals.
SELECT
    o.cluster, o.group, o.topic, o.broker, o.queue_id, o.client_id,
    max_by(o.cached_count, o.rank) AS cached_count,
    max(o.time) AS client_time,
    instant - max(o.time) AS client_age_ms,
    instant - max(o.time) > 2 * max_by(o.interval_ms, o.rank) AS client_is_stale,
    max(o.lock_at) AS lock_at,
    max(o.pull_at) AS pull_at,
    max(o.consume_at) AS consume_at
FROM seen_at(instant) o
WHERE o.client_id IS NOT NULL
GROUP BY o.cluster, o.group, o.topic, o.broker, o.queue_id, o.client_id
