-- What is wrong now.
SELECT i.* FROM incidents i WHERE i.resolved_at IS NULL
