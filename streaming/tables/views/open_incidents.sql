-- An incident that is open now.
SELECT i.* FROM incidents i WHERE i.resolved_at IS NULL
