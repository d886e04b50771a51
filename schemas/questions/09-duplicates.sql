-- How many messages were consumed again for each trigger of a rebalance? Null: unknown for at least one of them.
SELECT
    trigger, count(*) AS rebalances, sum(reconsumed_min) AS at_least,
    CASE WHEN count(reconsumed_max) = count(*) THEN sum(reconsumed_max) END AS at_most
FROM rebalances
WHERE start_time >= $since AND start_time < $until
GROUP BY trigger
ORDER BY at_least DESC, trigger
