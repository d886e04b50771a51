-- name: controls
SELECT * FROM alert_controls k ORDER BY k.time
