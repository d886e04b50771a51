-- Who owned each queue at an instant ($until), and since when? Null: nobody.
SELECT topic, broker, queue_id, CASE WHEN action = 'ASSIGNED' THEN client_id END AS owner, time AS since
FROM assignment_history
WHERE "group" = $group AND time <= $until
QUALIFY row_number() OVER (PARTITION BY cluster, topic, broker, queue_id ORDER BY time DESC, seq DESC) = 1
ORDER BY topic, broker, queue_id
