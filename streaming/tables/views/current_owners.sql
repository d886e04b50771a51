-- Who owns each queue now, and since when; `client_id` is null while it is unassigned.
SELECT n.* FROM owners_at(9223372036854775807) n
