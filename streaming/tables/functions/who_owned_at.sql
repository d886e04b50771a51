-- The owner of a queue at an instant.
SELECT i.*
FROM ownership_intervals i
WHERE i.from_time <= instant AND (i.to_time IS NULL OR instant < i.to_time)
