-- One row for each queue with quantities since `since`: the first observation that contradicts itself, in each way.
-- Queues that clients pop are left out: their lag is what is ready and in flight.
SELECT
    concat_ws(' ', o.cluster, o.group, o.topic || '@' || o.broker || ':' || o.queue_id) AS subject,
    min(CASE WHEN o.commit_offset > o.broker_offset AND o.lag IS NOT NULL
        THEN format('{} {}: commit {}, newest offset {}, lag {}',
            o.kind, o.time, o.commit_offset, o.broker_offset, o.lag) END) AS commit_beyond_newest,
    min(CASE WHEN NOT coalesce(o.lag_is_at_least, false) AND o.lag <> o.broker_offset - o.commit_offset
            OR o.lag_is_at_least AND o.lag > o.broker_offset - o.commit_offset
        THEN format('{} {}: lag {}, commit {}, newest offset {}',
            o.kind, o.time, o.lag, o.commit_offset, o.broker_offset) END) AS lag_differs,
    min(CASE WHEN greatest(o.commit_at, o.lock_at, o.pull_at) > o.time
        THEN format('{} {}: its last call was at {}', o.kind, o.time, greatest(o.commit_at, o.lock_at, o.pull_at)) END)
        AS later_than_itself
FROM queue_observations o
WHERE o.row_time >= from_ms($since) AND o.date >= CAST($first_day AS DATE) AND o.level = 2
    AND o.client_id IS NULL AND o.kind <> 'TOPIC_STATS' AND o.queue_id >= 0 AND o.in_flight_since IS NULL
GROUP BY o.cluster, o.group, o.topic, o.broker, o.queue_id
