-- The last report of a client about one of its queues by an instant, within the look-back of `seen_at`. Its times are
-- the latest possible ones; the row is stale if the answer is older than two intervals.
SELECT
    c.cluster, c.group, c.topic, c.broker, c.queue_id, c.client_id,
    c.cached_count,
    c.client_time,
    epoch_ms(instant) - epoch_ms(c.client_time) AS client_age_ms,
    epoch_ms(instant) - epoch_ms(c.client_time) > 2 * c.interval_ms AS client_is_stale,
    c.lock_at, c.pull_at, c.consume_at
FROM (
    SELECT
        o.cluster, o.group, o.topic, o.broker, o.queue_id, o.client_id,
        max_by(o.cached_count, o.rank) AS cached_count,
        max_by(o.interval_ms, o.rank) AS interval_ms,
        max(o.time) AS client_time,
        max(o.lock_at) AS lock_at,
        max(o.pull_at) AS pull_at,
        max(o.consume_at) AS consume_at
    FROM clients_seen_at(instant) o
    GROUP BY o.cluster, o.group, o.topic, o.broker, o.queue_id, o.client_id
) c
