-- The last known state of each group.
SELECT n.* FROM groups_at(9223372036854775807) n
