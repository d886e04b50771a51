-- An incident after its last transition; `resolved_at` is null while it is open.
SELECT n.* FROM incidents_at(CAST('9999-12-31 00:00:00+00:00' AS TIMESTAMP)) n
