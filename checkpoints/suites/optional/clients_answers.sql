-- One row for each queue that clients have answered about since `since`: the first answer that contradicts the history
-- of its owners, in each way. An answer is compared with the owners of 30 s before its request until 30 s after it, as
-- a queue may change hands meanwhile; a queue that two clients claim at once is QUEUE_DOUBLE_OWNED, and no row is wrong.
WITH answers AS (
    SELECT
        e.cluster, e.group, e.time, json_extract_string(e.value, '$.client_id') AS client_id,
        make_timestamptz(CAST(json_extract(e.value, '$.asked') AS BIGINT) * 1000) - INTERVAL 30 SECOND AS first_time,
        e.time + INTERVAL 30 SECOND AS last_time,
        CAST(json_extract(e.value, '$.orderly') AS BOOLEAN) AS orderly,
        from_json(json_extract(e.value, '$.queues'), '[{"mq": {"topic": "VARCHAR", "broker": "VARCHAR", "queue_id": "INTEGER"},
            "locked": "BOOLEAN", "dropped": "BOOLEAN"}]') AS queues
    FROM telemetry_events e
    WHERE e.type = 'CONSUMER_RUNNING_INFO' AND json_extract(e.value, '$.error') IS NULL
        AND e.ingest_time >= from_ms($since) AND e.date >= CAST($first_day AS DATE)
        -- The history has not been made yet of what came last.
        AND e.time <= (SELECT max(g.time) - INTERVAL 60 SECOND FROM group_state g)
),
claims AS (
    SELECT a.cluster, a.group, a.time, a.client_id, a.first_time, a.last_time, q.mq.topic, q.mq.broker, q.mq.queue_id
    FROM answers a, unnest(a.queues) AS u(q)
    WHERE NOT q.dropped AND (q.locked OR NOT coalesce(a.orderly, false))
),
owned AS (
    SELECT i.*, coalesce(i.to_time, TIMESTAMPTZ '9999-12-31 00:00:00Z') AS end_time FROM ownership_intervals i
),
others AS (  -- claims of a queue that its claimant did not own at any moment around its answer
    SELECT c.*
    FROM claims c
    WHERE EXISTS (
            FROM owned k
            WHERE k.cluster = c.cluster AND k.group = c.group AND k.topic = c.topic AND k.broker = c.broker
                AND k.queue_id = c.queue_id AND k.from_time <= c.first_time
        )
        AND NOT EXISTS (
            FROM owned o
            WHERE o.cluster = c.cluster AND o.group = c.group AND o.topic = c.topic AND o.broker = c.broker
                AND o.queue_id = c.queue_id AND o.client_id = c.client_id
                AND o.from_time <= c.last_time AND o.end_time >= c.first_time
        )
        AND NOT EXISTS (
            FROM claims r
            WHERE r.cluster = c.cluster AND r.group = c.group AND r.topic = c.topic AND r.broker = c.broker
                AND r.queue_id = c.queue_id AND r.client_id <> c.client_id AND r.time BETWEEN c.first_time AND c.last_time
        )
),
lacking AS (  -- queues that a client owned all the time around an answer that does not have them
    SELECT a.time, o.cluster, o.group, o.topic, o.broker, o.queue_id, o.client_id
    FROM answers a
    JOIN owned o
        ON o.cluster = a.cluster AND o.group = a.group AND o.client_id = a.client_id
        AND o.from_time <= a.first_time AND o.end_time >= a.last_time
    WHERE NOT EXISTS (
        FROM claims c
        WHERE c.cluster = o.cluster AND c.group = o.group AND c.topic = o.topic AND c.broker = o.broker
            AND c.queue_id = o.queue_id AND c.client_id = o.client_id
            AND c.time BETWEEN a.first_time AND a.last_time
    )
),
queues AS (
    SELECT cluster, "group", topic, broker, queue_id, time, client_id, 'claims' AS how FROM claims UNION ALL
    SELECT cluster, "group", topic, broker, queue_id, time, client_id, 'others' FROM others UNION ALL
    SELECT cluster, "group", topic, broker, queue_id, time, client_id, 'lacking' FROM lacking
)
SELECT
    concat_ws(' ', q.cluster, q.group, q.topic || '@' || q.broker || ':' || q.queue_id) AS subject,
    count(*) FILTER (q.how = 'claims') AS answers,
    min(CASE WHEN q.how = 'others' THEN format('{}: {} has it, and is not its owner', q.time, q.client_id) END)
        AS not_owned,
    min(CASE WHEN q.how = 'lacking' THEN format('{}: its owner {} does not have it', q.time, q.client_id) END)
        AS not_held
FROM queues q
GROUP BY q.cluster, q.group, q.topic, q.broker, q.queue_id
