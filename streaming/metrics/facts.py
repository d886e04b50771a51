"""What a scrape tells, read from the tables in a few questions.

The last state of every queue is the dear one, so it is asked once, and what is summed of it is summed here. Quantities
are those of the newest observation by this machine's clock; what is stale is left out, so its series ends.
"""

import json
from typing import NamedTuple

import duckdb

from streaming.metrics.sources import Heard, Source, Sources
from streaming.queries.answers import Coverage, Health, Incident
from streaming.queries.incidents import incidents
from streaming.read_model import ReadModel
from streaming.read_model.reader import Row
from streaming.times import now_ms

DAY_MS = 86_400_000
QUIET_CAUSE_DAYS = 7
"""A cause that a group had within so many days has a series, at 0 where it had none today: a counter that begins with
its first event hides it from ``increase``."""

_GROUPS = """
SELECT
    g.cluster, g.group, g.time, g.health, g.members, g.coverage,
    g.consume_type <> 'CONSUME_ACTIVELY' AND g.message_model <> 'BROADCASTING' AS divided
FROM current_groups g
ORDER BY g.cluster, g.group
"""
_QUEUES = """
SELECT
    q.cluster, q.group, q.topic, q.broker, q.queue_id, q.owner, q.status,
    CASE WHEN NOT p.lag_is_stale THEN p.lag END AS lag,
    CASE WHEN NOT p.waiting_is_stale THEN p.waiting_ms END AS waiting_ms,
    CASE WHEN q.locked THEN $now - greatest(q.lock_at, p.lock_at, c.lock_at) END AS lock_age_ms
FROM current_queues q
LEFT JOIN progress_at($now) p
    ON p.cluster = q.cluster AND p.group = q.group AND p.topic = q.topic AND p.broker = q.broker
    AND p.queue_id = q.queue_id
LEFT JOIN client_progress_at($now) c
    ON c.cluster = q.cluster AND c.group = q.group AND c.topic = q.topic AND c.broker = q.broker
    AND c.queue_id = q.queue_id AND c.client_id = q.owner
"""
_TOPICS = """
SELECT
    q.cluster, q.group, q.topic,
    CAST(sum(q.lag) AS BIGINT) AS lag,
    max(q.waiting_ms) AS waiting_ms,
    count(*) FILTER (q.owner IS NULL) AS unowned,
    count(*) FILTER (q.lag IS NULL) AS lag_unknown,
    list(DISTINCT q.owner) FILTER (q.owner IS NOT NULL) AS owners
FROM queues q
GROUP BY ALL
ORDER BY ALL
"""
_UNWELL = """
SELECT
    r.cluster, r.group,
    CASE WHEN r.place <= $limit THEN r.topic END AS topic,
    CASE WHEN r.place <= $limit THEN r.broker END AS broker,
    CASE WHEN r.place <= $limit THEN r.queue_id END AS queue_id,
    min(r.badness) AS badness,
    count(*) AS queues,
    CAST(sum(r.lag) AS BIGINT) AS lag,
    max(r.lock_age_ms) AS lock_age_ms
FROM (
    SELECT b.*, row_number() OVER (ORDER BY b.badness, b.lag DESC NULLS LAST, b.cluster, b.group, b.topic, b.broker,
        b.queue_id) AS place
    FROM (
        SELECT q.*, CASE q.status WHEN 'BAD' THEN 0 WHEN 'WARN' THEN 1 ELSE 2 END AS badness FROM queues q
        WHERE q.status <> 'OK' AND NOT starts_with(q.topic, '%RETRY%')
    ) b
) r
GROUP BY 1, 2, 3, 4, 5
ORDER BY 1, 2, 3 NULLS LAST, 4, 5
"""
_REBALANCES = """
SELECT r.cluster, r.group, r.trigger AS cause, count(*) FILTER (r.time >= $midnight) AS today
FROM rebalances r
WHERE r.time >= $since
GROUP BY ALL
ORDER BY ALL
"""
_REJECTED = """
SELECT t.reason, count(*) FILTER (t.ingest_time >= $midnight) AS today
FROM telemetry_rejected t
WHERE t.ingest_time >= $since
GROUP BY ALL
ORDER BY ALL
"""
_JUDGED = """
SELECT q.suite, q.expectation, coalesce(q.column, '') AS column, q.success
FROM quality_results q
WHERE q.batch_id = (SELECT arg_max(l.batch_id, l.time) FROM quality_results l)
ORDER BY ALL
"""


class GroupFacts(NamedTuple):
    """A group's last state."""

    cluster: str
    group: str
    time: int
    health: Health
    members: list[str]
    coverage: Coverage
    divided: bool
    """Whether each queue has one owner: not where every client reads them all, or clients pull by themselves."""


class Facts(NamedTuple):
    """The tables at one scrape."""

    groups: list[GroupFacts]
    topics: list[Row]
    unwell: list[Row]
    """Queues that are not OK; those beyond the limit are one row a group, without a name."""
    incidents: list[Incident]
    """The open ones."""
    rebalances: list[Row]
    rejected: list[Row]
    judged: list[Row]
    """What the quality gate said of the archive's last batch."""
    sources: dict[Source, Heard]
    told: int
    """Up to when the tables tell: the latest time in them."""


def facts(model: ReadModel, sources: Sources, queue_series: int) -> Facts:
    """Read it."""
    known = [GroupFacts(**row | {"coverage": Coverage(**json.loads(row["coverage"]))}) for row in model.rows(_GROUPS)]
    heard = sources.look(model)
    told = max((*(one.time for one in heard.values()), *(group.time for group in known)), default=0)
    ingested = max((one.ingest_time for one in heard.values()), default=0)
    with duckdb.connect(":memory:") as here:
        here.register("queues", model.sql(_QUEUES, {"now": now_ms()}))
        topics = here.sql(_TOPICS).to_arrow_table().to_pylist()
        unwell = here.sql(_UNWELL, params={"limit": queue_series}).to_arrow_table().to_pylist()
    return Facts(
        groups=known,
        topics=topics,
        unwell=unwell,
        incidents=incidents(model, only_open=True),
        rebalances=model.rows(_REBALANCES, _days(told)),
        rejected=model.rows(_REJECTED, _days(ingested)),
        judged=model.rows(_JUDGED),
        sources=heard,
        told=told,
    )


def _days(now: int) -> dict[str, int]:
    """A counter of the tables' rows begins anew at midnight UTC.

    Retention takes rows away. A counter of all of them would fall then, which Prometheus takes for a restart and adds
    what is left: a storm that never was. One of a day's rows falls only at midnight, to what is true, whichever process
    counts.
    """
    midnight = now // DAY_MS * DAY_MS
    return {"midnight": midnight, "since": midnight - QUIET_CAUSE_DAYS * DAY_MS}
