-- name: rebalances
SELECT * FROM rebalances r
WHERE r.cluster = $cluster AND r.group = $group
    AND r.start_time >= from_ms($since) AND r.start_time <= from_ms($until)
ORDER BY r.start_time DESC, r.seq DESC
LIMIT $last

-- name: by_id
SELECT * FROM rebalances r
WHERE r.cluster = $cluster AND r.group = $group AND starts_with(r.rebalance_id, $id)

-- name: costs
SELECT r.rebalance_id, r.start_time, r.trigger, list_sum([m.pause_ms FOR m IN r.moves]) AS pause_ms,
    list_bool_or([m.pause_is_at_most FOR m IN r.moves IF m.pause_ms IS NOT NULL]) AS at_most,
    len([m FOR m IN r.moves IF m.pause_ms IS NULL]) AS unknown
FROM rebalances r
WHERE r.cluster = $cluster AND r.group = $group
    AND r.start_time >= from_ms($since) AND r.start_time <= from_ms($until)

-- name: totals
SELECT count(*) AS rebalances, min(r.start_time) AS first, sum(r.pause_ms) AS pause_ms,
    coalesce(bool_or(r.at_most), false) AS pause_is_at_most, coalesce(sum(r.unknown), 0) AS pauses_unknown,
    arg_max(r.rebalance_id, r.pause_ms) AS costliest, max(r.pause_ms) AS costliest_pause_ms
FROM ({costs}) r

-- name: totals_by_cause
SELECT r.trigger, count(*) AS rebalances, CAST(sum(r.pause_ms) AS BIGINT) AS pause_ms FROM ({costs}) r
GROUP BY r.trigger ORDER BY rebalances DESC, r.trigger
