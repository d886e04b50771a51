-- name: owned_queues
-- The queues of an instant with their owners: by the history of owners where there is one, else by their own rows.
SELECT t.* REPLACE (CASE WHEN o.since IS NULL THEN t.owner ELSE o.client_id END AS owner), o.since
FROM queues_at(from_ms($instant)) t
LEFT JOIN owners_at(from_ms($instant)) o
    ON o.cluster = t.cluster AND o.group = t.group AND o.topic = t.topic AND o.broker = t.broker
    AND o.queue_id = t.queue_id

-- name: lock_age
-- The time since the lock of a queue was renewed, milliseconds: of a row ``t`` of a queue, ``p`` of `progress_at` and
-- ``c`` of `client_progress_at`. A hook reports when the broker granted the lock; a client's time is the latest possible
-- one. A time that no later row of the queue has shown is unknown, not that old.
CASE WHEN t.locked THEN age_ms(greatest(
    CASE WHEN $now - epoch_ms(t.time) <= $row_valid_ms THEN t.lock_at END,
    p.lock_at,
    CASE WHEN p.lock_at IS NULL OR p.hook_age_ms > $hook_silent_ms THEN c.lock_at END
), $now) END

-- name: lock_is_stale
-- Whether nothing has reported the queue for so long that its lock's age may be wrong.
(t.lock_at IS NULL OR $now - epoch_ms(t.time) > $row_stale_ms)
    AND coalesce(p.hook_is_stale, true) AND coalesce(c.client_is_stale, true)

-- name: queues
SELECT
    t.cluster, t.group, t.topic, t.broker, t.queue_id, t.owner, t.since, t.expected_owner, t.locked,
    {lock_age} AS lock_age_ms,
    {lock_is_stale} AS lock_is_stale,
    age_ms(greatest(
        CASE WHEN $now - epoch_ms(t.time) <= $row_valid_ms THEN t.pull_at END, p.pull_at, c.pull_at
    ), $now) AS pull_age_ms,
    (t.pull_at IS NULL OR $now - epoch_ms(t.time) > $row_stale_ms)
        AND coalesce(p.hook_is_stale, true) AND coalesce(c.client_is_stale, true) AS pull_is_stale,
    age_ms(greatest(
        CASE WHEN $now - epoch_ms(t.time) <= $row_valid_ms THEN t.consume_at END, c.consume_at
    ), $now) AS consume_age_ms,
    (t.consume_at IS NULL OR $now - epoch_ms(t.time) > $row_stale_ms)
        AND coalesce(c.client_is_stale, true) AS consume_is_stale,
    age_ms(p.commit_at, $now) AS commit_age_ms,
    coalesce(p.hook_is_stale, false) AS commit_is_stale,
    p.commit_offset, p.broker_offset,
    p.lag, coalesce(p.lag_is_at_least, false) AS lag_is_at_least, p.lag_time, p.lag_age_ms,
    coalesce(p.lag_is_stale, false) AS lag_is_stale, p.in_flight, p.in_flight_since,
    age_ms(p.in_flight_since, $now) AS in_flight_age_ms, p.ready,
    p.waiting_ms, coalesce(p.waiting_is_at_most, false) AS waiting_is_at_most, p.waiting_age_ms,
    coalesce(p.waiting_is_stale, false) AS waiting_is_stale,
    c.cached_count, c.client_age_ms AS cached_age_ms, coalesce(c.client_is_stale, false) AS cached_is_stale,
    t.status, t.status_reason, coalesce(t.shared_by, []) AS shared_by, t.time
FROM ({owned_queues}) t
LEFT JOIN progress_at(from_ms($now)) p
    ON p.cluster = t.cluster AND p.group = t.group AND p.topic = t.topic AND p.broker = t.broker
    AND p.queue_id = t.queue_id
LEFT JOIN client_progress_at(from_ms($now)) c
    ON c.cluster = t.cluster AND c.group = t.group AND c.topic = t.topic AND c.broker = t.broker
    AND c.queue_id = t.queue_id AND c.client_id = t.owner
WHERE t.cluster = $cluster AND t.group = $group
    AND ($topic IS NULL OR t.topic = $topic) AND ($retry OR NOT starts_with(t.topic, '%RETRY%'))
ORDER BY t.topic, t.broker, t.queue_id

-- name: owner
SELECT t.* FROM who_owned_at(from_ms($instant)) t
WHERE t.cluster = $cluster AND t.group = $group
    AND t.topic = $topic AND t.broker = $broker AND t.queue_id = $queue_id

-- name: owners
SELECT t.* FROM who_owned_at(from_ms($instant)) t
WHERE t.cluster = $cluster AND t.group = $group
    AND ($topic IS NULL OR t.topic = $topic) AND ($retry OR NOT starts_with(t.topic, '%RETRY%'))
ORDER BY t.topic, t.broker, t.queue_id

-- name: last_owner
SELECT t.* FROM ownership_intervals t
WHERE t.cluster = $cluster AND t.group = $group
    AND t.topic = $topic AND t.broker = $broker AND t.queue_id = $queue_id
    AND t.to_time <= from_ms($instant)
ORDER BY t.to_time DESC, t.from_time DESC LIMIT 1

-- name: unassigned
SELECT t.topic, t.broker, t.queue_id FROM owners_at(from_ms($instant)) t
WHERE t.cluster = $cluster AND t.group = $group
    AND NOT starts_with(t.topic, '%RETRY%') AND t.client_id IS NULL

-- name: intervals
SELECT t.* FROM ownership_intervals t
WHERE t.cluster = $cluster AND t.group = $group
    AND ($topic IS NULL OR t.topic = $topic) AND ($retry OR NOT starts_with(t.topic, '%RETRY%'))
    AND t.from_time <= from_ms($until) AND (t.to_time IS NULL OR t.to_time >= from_ms($since))
ORDER BY t.topic, t.broker, t.queue_id, t.from_time

-- name: owner_changes
SELECT t.*, q.queue_id IS NULL AND t.from_client IS NULL AS is_new
FROM owner_changes(from_ms($earlier), from_ms($later)) t
LEFT JOIN queues_at(from_ms($earlier)) q
    ON q.cluster = t.cluster AND q.group = t.group AND q.topic = t.topic AND q.broker = t.broker
    AND q.queue_id = t.queue_id
WHERE t.cluster = $cluster AND t.group = $group
    AND ($topic IS NULL OR t.topic = $topic) AND ($retry OR NOT starts_with(t.topic, '%RETRY%'))
ORDER BY t.topic, t.broker, t.queue_id

-- name: owned
-- `ownership_intervals` of the queues that match alone: the view would sort the history of all queues.
SELECT
    c.cluster, c.group, c.topic, c.broker, c.queue_id, c.client_id, c.time AS from_time, c.next_time AS to_time,
    epoch_ms(c.next_time) - epoch_ms(c.time) AS duration_ms, c.evidence, c.next_evidence AS end_evidence, c.rebalance_id
FROM (
    SELECT h.*, lead(h.time) OVER queue AS next_time, lead(h.evidence) OVER queue AS next_evidence
    FROM assignment_history h
    SEMI JOIN (
        SELECT DISTINCT k.cluster, k.group, k.topic, k.broker, k.queue_id
        FROM assignment_history k
        WHERE k.time <= from_ms($until) AND NOT starts_with(k.topic, '%RETRY%') AND (
            contains(lower(k.client_id), $text)
            OR contains(lower(concat(k.topic, '@', k.broker, ':', k.queue_id)), $text)
        )
    ) p
        ON p.cluster = h.cluster AND p.group = h.group AND p.topic = h.topic AND p.broker = h.broker
        AND p.queue_id = h.queue_id
    WHERE h.time <= from_ms($until)
    WINDOW queue AS (
        PARTITION BY h.cluster, h.group, h.topic, h.broker, h.queue_id ORDER BY h.time, h.seq
    )
) c
WHERE c.action = 'ASSIGNED' AND (
        contains(lower(c.client_id), $text)
        OR contains(lower(concat(c.topic, '@', c.broker, ':', c.queue_id)), $text)
    )
    AND (c.next_time IS NULL OR c.next_time >= from_ms($since))
ORDER BY c.next_time DESC NULLS FIRST, c.cluster, c.group, c.topic, c.broker, c.queue_id, c.time DESC
LIMIT $last
