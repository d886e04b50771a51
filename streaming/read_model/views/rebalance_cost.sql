-- What rebalances cost each group: how many, how many queues they moved, and how long queues had no owner.
SELECT
    r.cluster, r.group,
    r.rebalances, r.not_converged, r.queues_moved, r.duration_ms_max,
    coalesce(p.pauses, 0) AS pauses,
    coalesce(p.pause_ms_sum, 0) AS pause_ms_sum,
    p.pause_ms_median, p.pause_ms_max
FROM (
    SELECT
        s.cluster, s.group,
        count(*) AS rebalances,
        count(CASE WHEN NOT s.converged THEN 1 END) AS not_converged,
        CAST(sum(s.queues_moved) AS BIGINT) AS queues_moved,
        max(s.end_time - s.start_time) AS duration_ms_max
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
