-- The last known state of a queue that its group still has.
SELECT n.* FROM queues_at(CAST('9999-12-31 00:00:00+00:00' AS TIMESTAMP)) n
