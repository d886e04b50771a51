-- How many groups have queues at each broker at an instant, and how many queues: what an incident
-- of the broker touches.
SELECT q.cluster, q.broker, count(DISTINCT q.group) AS groups, count(*) AS queues
FROM queues_at(instant) q
WHERE left(q.topic, 7) <> '%RETRY%'
GROUP BY q.cluster, q.broker
