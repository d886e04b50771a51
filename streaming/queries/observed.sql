-- name: period
-- The rows of a table that a period needs, by their alias; an aggregated row has the end of its time, at most 5 minutes
-- later.
{of_groups} AND {condition}
    AND {row}.time > from_ms($since - $back) AND {row}.time <= from_ms($until + {later_ms})
    AND {row}.date BETWEEN day_of($since - $back) AND day_of($until + 300000)

-- name: rows
(SELECT p.* FROM {table} p WHERE {period})

-- name: last_of_slices
-- The last answer of each kind about the same queues in each slice, which is valid at its end.
(
    SELECT p.*
    FROM queue_progress p
    SEMI JOIN (
        SELECT
            k.cluster, k.group, k.broker, k.source, k.kind, coalesce(k.client_id, '') AS client, max(k.time) AS last_time
        FROM queue_progress k
        WHERE {period_k}
        GROUP BY
            k.cluster, k.group, k.broker, k.source, k.kind, coalesce(k.client_id, ''), hash(k.topic), hash(k.queue_id),
            greatest(0, ceil((epoch_ms(k.time) - $since) / $step))
    ) l
        ON l.cluster = p.cluster AND l.group = p.group AND l.broker = p.broker AND l.source = p.source
        AND l.kind = p.kind AND l.client = coalesce(p.client_id, '') AND l.last_time = p.time
    WHERE {period_p}
)

-- name: ranked
-- ``rank`` rises with the time and with the resolution of the table: a rolled-up row may stand beside the answer that it
-- was made of.
SELECT u.*, {rank} AS rank FROM ({levels}) u

-- name: counts_for_lag
-- Whether a queue counts for its group's lag. The retry topic of a whole group is shown by itself; one of a topic has
-- popped messages that came back: they are of the topic's lag, as they were before.
(
    NOT starts_with({row}.topic, '%RETRY%')
    OR starts_with({row}.topic, '%RETRY%' || {group} || '_') OR starts_with({row}.topic, '%RETRY%' || {group} || '+')
)
