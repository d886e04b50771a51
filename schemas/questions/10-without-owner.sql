-- For how many minutes had each queue no owner, in total?
SELECT topic, broker, queue_id, sum(epoch_ms(ends) - epoch_ms(begins)) / 60e3 AS minutes
FROM (
    SELECT
        topic, broker, queue_id, action, next_action,
        greatest(time, $since) AS begins, least(coalesce(next_time, $until), $until) AS ends
    FROM (
        SELECT *, lead(time) OVER queue AS next_time, lead(action) OVER queue AS next_action
        FROM assignment_history
        WHERE "group" = $group AND time < $until
        WINDOW queue AS (PARTITION BY cluster, topic, broker, queue_id ORDER BY time, seq)
    )
)
WHERE action = 'RELEASED' AND begins < ends
GROUP BY topic, broker, queue_id
ORDER BY minutes DESC, topic, broker, queue_id
