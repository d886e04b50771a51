-- Each incident once, as its last transition left it; `resolved_at` is null while it is open.
SELECT n.* FROM incidents_at(9223372036854775807) n
