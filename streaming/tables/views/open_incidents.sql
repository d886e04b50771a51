-- The incidents that are open now.
SELECT i.* FROM incidents i WHERE i.resolved_at IS NULL
