-- The last observation of a queue's quantities by an instant, of each kind: `brokers_seen_at` and `clients_seen_at`.
SELECT * FROM brokers_seen_at(instant)
UNION ALL
SELECT * FROM clients_seen_at(instant)
