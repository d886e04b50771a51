-- The last known state of each queue that its group still has.
SELECT n.* FROM queues_at(9223372036854775807) n
