-- What has become known since the last run? Rows may be about an earlier time: `known_at` rises, `time` may not.
SELECT
    known_at, time, cluster, "group", 'assignment' AS what,
    concat_ws(' ', action, topic, broker, queue_id, client_id) AS detail
FROM assignment_history WHERE known_at > $last_run
UNION ALL
SELECT known_at, time, cluster, "group", 'rebalance', concat_ws(' ', trigger, trigger_client)
FROM rebalances WHERE known_at > $last_run
UNION ALL
SELECT known_at, time, cluster, "group", 'incident', concat_ws(' ', transition, code, sub_cause, subject)
FROM anomalies WHERE known_at > $last_run
ORDER BY known_at, cluster, "group", time, what, detail
