-- One row for each queue whose owner changed, or whose state was written, since `since`. Of its changes also the last
-- one before is read.
WITH changes AS (
    SELECT h.cluster, h.group, h.topic, h.broker, h.queue_id, h.action, h.client_id, h.time, h.seq, true AS is_new
    FROM assignment_history h
    WHERE h.known_at >= from_ms($since)
    UNION ALL
    SELECT
        b.cluster, b.group, b.topic, b.broker, b.queue_id,
        arg_max(b.action, b.seq), arg_max(b.client_id, b.seq), arg_max(b.time, b.seq), max(b.seq), false
    FROM assignment_history b
    WHERE b.known_at < from_ms($since)
    GROUP BY ALL
),
followed AS (
    SELECT
        c.*,
        lag(c.action) OVER queue AS action_before,
        lag(c.client_id) OVER queue AS client_before,
        lag(c.time) OVER queue AS time_before
    FROM changes c
    WINDOW queue AS (PARTITION BY c.cluster, c.group, c.topic, c.broker, c.queue_id ORDER BY c.seq)
),
histories AS (
    SELECT
        f.cluster, f.group, f.topic, f.broker, f.queue_id,
        min(CASE WHEN f.is_new AND f.action = 'ASSIGNED' AND f.action_before = 'ASSIGNED'
            THEN format('{} from {}, and {} from {}', f.client_before, f.time_before, f.client_id, f.time) END)
            AS owned_twice,
        min(CASE WHEN f.is_new AND f.action = 'RELEASED' AND f.action_before = 'RELEASED'
            THEN format('{} at {}: there was no owner', f.client_id, f.time)
            WHEN f.is_new AND f.action = 'RELEASED' AND f.client_before <> f.client_id
            THEN format('{} at {}: the owner was {}', f.client_id, f.time, f.client_before) END)
            AS released_by_other,
        min(CASE WHEN f.is_new AND f.time < f.time_before
            THEN format('{} at {}, after {}', f.client_id, f.time, f.time_before) END)
            AS out_of_order,
        arg_max(CASE WHEN f.action = 'ASSIGNED' THEN f.client_id ELSE '' END, f.seq) AS last_owner,
        max(f.seq) AS last_seq,
        bool_or(f.is_new) AS is_new
    FROM followed f
    GROUP BY ALL
),
states AS (
    SELECT
        q.cluster, q.group, q.topic, q.broker, q.queue_id,
        coalesce(arg_max_null(q.owner, q.seq), '') AS owner, max(q.seq) AS seq
    FROM queue_state q
    WHERE q.known_at >= from_ms($since)
    GROUP BY ALL
)
SELECT
    concat_ws(' ', coalesce(h.cluster, s.cluster), coalesce(h.group, s.group),
        coalesce(h.topic, s.topic) || '@' || coalesce(h.broker, s.broker) || ':' || coalesce(h.queue_id, s.queue_id))
        AS subject,
    h.owned_twice, h.released_by_other, h.out_of_order,
    -- A state that is older than the last change says nothing about it.
    CASE WHEN s.owner <> coalesce(h.last_owner, '') AND s.seq > coalesce(h.last_seq, 0)
        THEN format('{} by its state, {} by its history', coalesce(nullif(s.owner, ''), 'no owner'),
            coalesce(nullif(h.last_owner, ''), 'no owner')) END AS another_owner
FROM histories h
FULL OUTER JOIN states s
    ON s.cluster = h.cluster AND s.group = h.group AND s.topic = h.topic AND s.broker = h.broker
    AND s.queue_id = h.queue_id
WHERE h.is_new OR s.seq IS NOT NULL
