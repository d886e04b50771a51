-- The current owner of a queue, and since when; `client_id` is null while the queue is unassigned.
SELECT n.* FROM owners_at(CAST('9999-12-31 00:00:00+00:00' AS TIMESTAMP)) n
