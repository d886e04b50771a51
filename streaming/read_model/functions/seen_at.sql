-- Everything that was seen of each queue within the look-back before an instant (epoch milliseconds): 15 minutes, or
-- three intervals of the row where that is more, up to 65 minutes. The two parts are for the reader's statistics: files
-- and row groups without a long interval are never read for the second one; `row_time` is the time that these know.
-- `rank` rises with the time, and with how fine the table is that has the observation.
SELECT a.*, a.time * 4 + a.level AS rank
FROM queue_observations a
WHERE a.row_time > instant - 900000 AND a.row_time <= instant + 300000
    AND a.time > instant - 900000 AND a.time <= instant
UNION ALL
SELECT b.*, b.time * 4 + b.level AS rank
FROM queue_observations b
WHERE b.row_time > instant - 3900000 AND b.row_time <= instant + 300000 AND b.interval_ms > 300000
    AND b.time > instant - 3 * b.interval_ms AND b.time <= instant - 900000
