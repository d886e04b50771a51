-- Which clients triggered the rebalances that cost most: how many, queues moved, pauses, and messages consumed again?
SELECT
    cluster, "group", trigger_client, count(*) AS rebalances, sum(queues_moved) AS queues_moved,
    sum(coalesce(list_sum([move.pause_ms for move in moves if move.from_client IS NOT NULL]), 0)) / 1e3 AS pause_seconds,
    sum(coalesce(reconsumed_min, 0)) AS reconsumed_min
FROM rebalances
WHERE start_time >= $since AND start_time < $until AND trigger_client IS NOT NULL
GROUP BY cluster, "group", trigger_client
ORDER BY pause_seconds DESC, rebalances DESC, cluster, "group", trigger_client
LIMIT 20
