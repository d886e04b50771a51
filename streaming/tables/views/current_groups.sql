-- The last known state of a group.
SELECT n.* FROM groups_at(CAST('9999-12-31 00:00:00+00:00' AS TIMESTAMP)) n
