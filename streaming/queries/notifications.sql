-- name: deliveries
SELECT d.time, d.channel, d.message, d.step, d.reason, d.related_id, d.detail, d.attempt
FROM alert_deliveries d
WHERE d.incident_id = $id
QUALIFY row_number() OVER (PARTITION BY d.key, d.channel ORDER BY d.number DESC) = 1
ORDER BY d.number

-- name: acknowledgement
SELECT k.time, k.author, k.reason FROM alert_controls k
WHERE k.control = 'ACK' AND k.control_id = $id
ORDER BY k.time LIMIT 1

-- name: silences
SELECT k.control_id, k.control, k.until, k.author, k.reason, k.cluster, k.group, k.code FROM alert_controls k
WHERE k.control IN ('SILENCE', 'END')
QUALIFY row_number() OVER (PARTITION BY k.control_id ORDER BY k.time DESC, k.control) = 1
ORDER BY k.until, k.control_id

-- name: actions
SELECT a.time, a.name, a.subject, a.source, a.action, a.target, a.detail, a.result, a.message, a.rows
FROM operator_actions a
WHERE a.time >= from_ms($since) AND ($kind IS NULL OR (a.action = 'SQL') = ($kind = 'sql'))
ORDER BY a.time DESC, a.target
LIMIT $last
