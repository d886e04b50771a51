"""Find queues of all groups by a part of their name, or of the id of a client that owned them in a period."""

from streaming.queries.results import Interval
from streaming.tables.reader import ReadModel

_MATCHES = """(
    contains(lower({0}.client_id), $text)
    OR contains(lower(concat({0}.topic, '@', {0}.broker, ':', {0}.queue_id)), $text)
)"""
_OWNED = f"""
SELECT
    c.cluster, c.group, c.topic, c.broker, c.queue_id, c.client_id, c.time AS from_time, c.next_time AS to_time,
    epoch_ms(c.next_time) - epoch_ms(c.time) AS duration_ms, c.evidence, c.next_evidence AS end_evidence, c.rebalance_id
FROM (
    SELECT h.*, lead(h.time) OVER queue AS next_time, lead(h.evidence) OVER queue AS next_evidence
    FROM assignment_history h
    SEMI JOIN (
        SELECT DISTINCT k.cluster, k.group, k.topic, k.broker, k.queue_id
        FROM assignment_history k
        WHERE k.time <= from_ms($until) AND NOT starts_with(k.topic, '%RETRY%') AND {_MATCHES.format("k")}
    ) p
        ON p.cluster = h.cluster AND p.group = h.group AND p.topic = h.topic AND p.broker = h.broker
        AND p.queue_id = h.queue_id
    WHERE h.time <= from_ms($until)
    WINDOW queue AS (
        PARTITION BY h.cluster, h.group, h.topic, h.broker, h.queue_id ORDER BY h.time, h.seq
    )
) c
WHERE c.action = 'ASSIGNED' AND {_MATCHES.format("c")}
    AND (c.next_time IS NULL OR c.next_time >= from_ms($since))
ORDER BY c.next_time DESC NULLS FIRST, c.cluster, c.group, c.topic, c.broker, c.queue_id, c.time DESC
LIMIT $last
"""  # noqa: S608  parts of ours
"""`ownership_intervals` of the queues that match alone: the view would sort the history of all queues."""


def find_owned(model: ReadModel, text: str, since: int, until: int, last: int) -> list[Interval]:
    """Return who owned which queue in a period, where the queue's name or the client's id contains a text.

    Those that had not ended by the end of the period come first. Retry queues are omitted.

    Args:
        model: the tables.
        text: a part of the name or id, in any case.
        since: the begin of the period, epoch milliseconds.
        until: its end, epoch milliseconds.
        last: the maximum number of intervals.
    """
    wanted = {"text": text.lower(), "since": since, "until": until, "last": last}
    return [Interval(**row) for row in model.rows(_OWNED, wanted)]
