-- name: last_rows
SELECT g.cluster, max(g.time) AS last FROM groups_at(from_ms($instant)) g
WHERE $cluster IS NULL OR g.cluster = $cluster
GROUP BY g.cluster ORDER BY g.cluster
