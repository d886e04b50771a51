-- name: deliveries
SELECT * FROM alert_deliveries d ORDER BY d.number
