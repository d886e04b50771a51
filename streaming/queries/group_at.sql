-- name: clusters
SELECT s.cluster, s.group, min(s.time) AS begins FROM group_state s
WHERE s.group = $group AND ($cluster IS NULL OR s.cluster = $cluster)
GROUP BY s.cluster, s.group

-- name: beginnings
SELECT s.cluster, min(s.time) AS begins FROM group_state s GROUP BY s.cluster

-- name: names
SELECT DISTINCT s.group FROM group_state s ORDER BY s.group
