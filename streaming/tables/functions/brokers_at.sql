-- The number of groups with queues at a broker at an instant, and the number of these queues: what an incident of the
-- broker affects.
SELECT q.cluster, q.broker, count(DISTINCT q.group) AS groups, count(*) AS queues
FROM queues_at(instant) q
WHERE left(q.topic, 7) <> '%RETRY%'
GROUP BY q.cluster, q.broker
