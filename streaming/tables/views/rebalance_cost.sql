-- The cost of a group's rebalances: how many there were, how many queues they moved (and the minimum), interrupted and
-- left unassigned, for how long queues were not consumed, and how many messages were consumed again: at least, and (if
-- known for every rebalance) at most.
SELECT
    r.cluster, r.group,
    r.rebalances, r.not_converged, r.queues_moved, r.queues_moved_min, r.queues_interrupted, r.queues_unassigned,
    r.duration_ms_max,
    r.reconsumed_min, r.reconsumed_max,
    coalesce(p.pauses, 0) AS pauses,
    coalesce(p.pause_ms_sum, 0) AS pause_ms_sum,
    p.pause_ms_median, p.pause_ms_max
FROM (
    SELECT
        s.cluster, s.group,
        count(*) AS rebalances,
        count(CASE WHEN NOT s.converged THEN 1 END) AS not_converged,
        CAST(sum(s.queues_moved) AS BIGINT) AS queues_moved,
        CAST(sum(s.queues_moved_min) AS BIGINT) AS queues_moved_min,
        CAST(sum(s.queues_interrupted) AS BIGINT) AS queues_interrupted,
        CAST(sum(s.queues_unassigned) AS BIGINT) AS queues_unassigned,
        CAST(sum(s.reconsumed_min) AS BIGINT) AS reconsumed_min,
        CASE WHEN count(s.reconsumed_max) = count(*) THEN CAST(sum(s.reconsumed_max) AS BIGINT) END AS reconsumed_max,
        max(epoch_ms(s.end_time) - epoch_ms(s.start_time)) AS duration_ms_max
    FROM rebalances s
    GROUP BY s.cluster, s.group
) r
LEFT JOIN (
    SELECT
        q.cluster, q.group,
        count(q.pause_ms) AS pauses,
        CAST(sum(q.pause_ms) AS BIGINT) AS pause_ms_sum,
        median(q.pause_ms) AS pause_ms_median,
        max(q.pause_ms) AS pause_ms_max
    FROM queue_pauses q
    GROUP BY q.cluster, q.group
) p ON p.cluster = r.cluster AND p.group = r.group
