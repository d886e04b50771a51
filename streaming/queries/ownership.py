"""Who owns, and owned, which queue."""

from streaming.queries.answers import Interval, OwnerChange, Queue
from streaming.queries.subject import Subject, subject
from streaming.read_model.reader import ReadModel

_OF_GROUP = "t.cluster = $cluster AND t.group = $group"
_IN_ORDER = "ORDER BY t.topic, t.broker, t.queue_id"

_QUEUES = f"""
SELECT
    t.cluster, t.group, t.topic, t.broker, t.queue_id,
    coalesce(o.client_id, t.owner) AS owner, o.since, t.expected_owner,
    t.locked, t.lock_age_ms, t.commit_offset, t.broker_offset, t.lag, t.cached_count, t.pull_age_ms, t.consume_age_ms,
    t.status, t.status_reason, t.time
FROM queues_at($instant) t
LEFT JOIN owners_at($instant) o
    ON o.cluster = t.cluster AND o.group = t.group AND o.topic = t.topic AND o.broker = t.broker
    AND o.queue_id = t.queue_id
WHERE {_OF_GROUP} AND ($topic IS NULL OR t.topic = $topic)
{_IN_ORDER}
"""  # noqa: S608  parts of ours


def queues(
    model: ReadModel, group: str, *, cluster: str | None = None, topic: str | None = None, at: int | None = None
) -> list[Queue]:
    """Every queue of a group: who has it, who should, and how it goes.

    Raises:
        UserError: see `subject`.
    """
    return queues_of(model, subject(model, group, cluster, at), topic)


def queues_of(model: ReadModel, of: Subject, topic: str | None = None) -> list[Queue]:
    """The queues of the group that was found."""
    return [Queue(**row) for row in model.rows(_QUEUES, {**of._asdict(), "topic": topic})]


def who_owned(  # noqa: PLR0913  a queue has four names
    model: ReadModel,
    group: str,
    topic: str,
    broker: str,
    queue_id: int,
    *,
    cluster: str | None = None,
    at: int | None = None,
) -> Interval | None:
    """Who owned one queue at an instant, from when to when; None where nobody did.

    Raises:
        UserError: see `subject`.
    """
    of = subject(model, group, cluster, at)
    query = f"""
        SELECT t.* FROM ownership_intervals t
        WHERE {_OF_GROUP} AND t.topic = $topic AND t.broker = $broker AND t.queue_id = $queue_id
            AND t.from_time <= $instant AND (t.to_time IS NULL OR $instant < t.to_time)
    """  # noqa: S608  parts of ours
    found = model.rows(query, {**of._asdict(), "topic": topic, "broker": broker, "queue_id": queue_id})
    return Interval(**found[0]) if found else None


def intervals(model: ReadModel, of: Subject, since: int, until: int, topic: str | None = None) -> list[Interval]:
    """Who owned each queue of a group within a span, in the order of the queues and of time."""
    query = f"""
        SELECT t.* FROM ownership_intervals t
        WHERE {_OF_GROUP} AND ($topic IS NULL OR t.topic = $topic)
            AND t.from_time <= $until AND (t.to_time IS NULL OR t.to_time >= $since)
        {_IN_ORDER}, t.from_time
    """  # noqa: S608  parts of ours
    wanted = {"cluster": of.cluster, "group": of.group, "topic": topic, "since": since, "until": until}
    return [Interval(**row) for row in model.rows(query, wanted)]


def diff(model: ReadModel, group: str, earlier: int, later: int, cluster: str | None = None) -> list[OwnerChange]:
    """Which queues of a group had another owner at the later of two instants.

    Raises:
        UserError: see `subject`.
    """
    of = subject(model, group, cluster, earlier)
    query = f"SELECT t.* FROM owner_changes($earlier, $later) t WHERE {_OF_GROUP} {_IN_ORDER}"  # noqa: S608
    wanted = {"cluster": of.cluster, "group": of.group, "earlier": earlier, "later": later}
    return [OwnerChange(**row) for row in model.rows(query, wanted)]
