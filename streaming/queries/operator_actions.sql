-- name: actions
SELECT a.time, a.name, a.subject, a.source, a.action, a.target, a.detail, a.result, a.message
FROM operator_actions a
WHERE a.time >= from_ms($since)
ORDER BY a.time DESC, a.target
LIMIT $last
