-- The answers of the 15 minutes before an instant (epoch milliseconds), the last of each kind that speaks of the same
-- queues: an answer says all that is known of its queues, so those before it add nothing. Their arrays are not taken
-- apart: `seen_at` does that with the few that are left.
SELECT p.*
FROM queue_progress p
JOIN (
    SELECT DISTINCT s.cluster, s.group, s.broker, s.source, s.kind, s.client, s.last_time
    FROM (
        SELECT
            k.cluster, k.group, k.broker, k.source, k.kind, coalesce(k.client_id, '') AS client,
            max(k.time) AS last_time
        FROM queue_progress k
        WHERE k.time > instant - 900000 AND k.time <= instant AND k.date >= CAST('1970-01-01' AS DATE) + CAST(floor(least(instant - 900000, 253402300799999) / 86400000) AS INTEGER)
        GROUP BY
            k.cluster, k.group, k.broker, k.source, k.kind, coalesce(k.client_id, ''), k.topic, k.queue_id
    ) s
) l
    ON l.cluster = p.cluster AND l.group = p.group AND l.broker = p.broker AND l.source = p.source
    AND l.kind = p.kind AND l.client = coalesce(p.client_id, '') AND l.last_time = p.time
WHERE p.time > instant - 900000 AND p.time <= instant AND p.date >= CAST('1970-01-01' AS DATE) + CAST(floor(least(instant - 900000, 253402300799999) / 86400000) AS INTEGER)
