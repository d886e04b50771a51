-- name: actions
SELECT a.time, a.name, a.subject, a.source, a.action, a.target, a.detail, a.result, a.message, a.rows
FROM operator_actions a
WHERE a.time >= from_ms($since) AND ($kind IS NULL OR (a.action = 'SQL') = ($kind = 'sql'))
ORDER BY a.time DESC, a.target
LIMIT $last
