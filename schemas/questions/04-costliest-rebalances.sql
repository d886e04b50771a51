-- Which rebalances cost most: the sum of the pauses of their queues, and messages that were consumed again?
SELECT
    cluster, "group", start_time, trigger, trigger_client, queues_moved,
    list_sum([move.pause_ms for move in moves if move.from_client IS NOT NULL]) / 1e3 AS pause_seconds,
    reconsumed_min, reconsumed_max, rebalance_id
FROM rebalances
WHERE start_time >= $since AND start_time < $until
ORDER BY pause_seconds DESC NULLS LAST, start_time, rebalance_id
LIMIT 20
