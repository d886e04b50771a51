-- The time for which a queue that a rebalance moved or interrupted was not consumed; null if the queue was left
-- unassigned, or if the time is unknown. See QueueMove in schemas/tables.schema.json.
SELECT
    m.cluster, m.group,
    m.move.queue.topic AS topic, m.move.queue.broker AS broker, m.move.queue.queue_id AS queue_id,
    m.move.from_client AS from_client, m.move.to_client AS to_client, m.move.kind AS kind,
    m.move.pause_ms AS pause_ms, m.move.pause_is_at_most AS pause_is_at_most,
    m.start_time, m.end_time, m.rebalance_id
FROM (
    SELECT r.cluster, r.group, r.start_time, r.end_time, r.rebalance_id, unnest(r.moves) AS move
    FROM rebalances r
) m
WHERE m.move.from_client IS NOT NULL
