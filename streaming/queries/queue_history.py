"""Query one queue over a period: owners, offsets, lag, lock, rebalances and incidents."""

from typing import Any

from rebalance_model.entities import MessageQueue
from streaming.base.errors import NotFoundError, UserError
from streaming.base.language import gettext
from streaming.queries.group_at import GroupAt, find_group
from streaming.queries.incidents import incidents_of
from streaming.queries.observed import observed
from streaming.queries.ownership import find_queue, queues_of
from streaming.queries.present import present
from streaming.queries.rebalances import rebalances_of
from streaming.queries.results import Incident, Interval, QueueDetail, QueueHistory, QueueObservation, Rebalance
from streaming.tables.observations import LOOK_BACK_MS
from streaming.tables.reader import ReadModel

_HOUR_MS = 3_600_000
SLICES = 300
"""The resolution: of each kind the last observation in each part of a period is read."""
_COLUMNS = ("broker_offset", "commit_offset", "lag", "lag_is_at_least", "waiting_ms", "lock_at")
_OBSERVATIONS = f"""
SELECT
    o.time, o.source, o.kind, o.client_id, epoch_ms(o.time) + 2 * o.interval_ms AS stale_at,
    o.broker_offset, o.commit_offset, o.lag, coalesce(o.lag_is_at_least, false) AS lag_is_at_least, o.waiting_ms,
    coalesce(o.waiting_ms > 0, false) AND o.kind <> 'CONSUME_TIME_SPAN' AS waiting_is_at_most,
    o.lock_at
FROM ({observed(_COLUMNS, "p.broker = $broker", "$topic")}) o
WHERE o.queue_id = $queue_id AND o.time <= from_ms($until)
    AND epoch_ms(o.time) + 2 * o.interval_ms > $since
ORDER BY o.time, o.level DESC
"""  # noqa: S608  parts of ours
_INTERVALS = """
SELECT t.* FROM ownership_intervals t
WHERE t.cluster = $cluster AND t.group = $group
    AND t.topic = $topic AND t.broker = $broker AND t.queue_id = $queue_id AND t.from_time <= from_ms($until)
ORDER BY t.from_time
"""


def queue_detail(  # noqa: PLR0913  a queue has four names
    model: ReadModel, group: str, topic: str | None, name: str, queue_id: int, *, cluster: str | None = None,
    since: int | None = None, at: int | None = None,
) -> QueueDetail:  # fmt: skip
    """Return a queue at an instant, and over the period before it.

    Args:
        model: the tables.
        group: its group.
        topic: its topic; None: ``name`` is the topic, which only one broker has.
        name: its broker.
        queue_id: its number.
        cluster: the cluster; required if the group exists in several.
        since: the beginning of the period, epoch milliseconds; an hour before the instant by default.
        at: the instant; now by default.

    Raises:
        NotFoundError: the group has no such queue, or did not have it by then.
        UserError: see `find_group`; the period is empty.
    """
    of = find_group(model, group, cluster, at)
    queue = MessageQueue(topic, name, queue_id) if topic is not None else find_queue(model, of, name, queue_id)
    until = present(model, at)
    begin = since if since is not None else until - _HOUR_MS
    if begin >= until:
        raise UserError(gettext("The period ends before it begins: choose an earlier --since or a later --at."))
    found = [
        q
        for q in queues_of(model, of, queue.topic, retry=True)
        if (q.broker, q.queue_id) == (queue.broker, queue.queue_id)
    ]
    history = queue_history(model, of, queue, begin, until)
    if not (found or history.intervals or history.observations):
        raise NotFoundError(
            gettext(
                "{group} had no queue {queue} in this period: `group assignments` lists its queues.",
                group=of.group, queue=queue,
            )
        )  # fmt: skip
    return QueueDetail(queue=found[0] if found else None, history=history)


def queue_history(model: ReadModel, of: GroupAt, queue: MessageQueue, since: int, until: int) -> QueueHistory:
    """Return a queue over a period.

    Args:
        model: the tables.
        of: its group; the instant is not used.
        queue: the queue.
        since: the beginning of the period, epoch milliseconds.
        until: its end.
    """
    place: dict[str, Any] = {"topic": queue.topic, "broker": queue.broker, "queue_id": queue.queue_id}
    of_queue = {"cluster": of.cluster, "group": of.group, **place, "until": until}
    owned = [Interval(**row) for row in model.rows(_INTERVALS, of_queue)]
    slices = {"since": since, "back": LOOK_BACK_MS, "step": max(1, (until - since) // SLICES)}
    rows = model.rows(_OBSERVATIONS, of_queue | slices)
    found = incidents_of(model, of._replace(instant=until), since=since)
    return QueueHistory(
        cluster=of.cluster, group=of.group, **place, since=since, until=until,
        unassigned_since=_unassigned_since(owned, since),
        intervals=tuple(one for one in owned if one.to_time is None or one.to_time >= since),
        rebalances=tuple(_changing(rebalances_of(model, of, since, until), queue)),
        incidents=tuple(one for one in reversed(found) if one.opened_at <= until and _concerns(one, queue)),
        observations=tuple(QueueObservation(**row) for row in rows),
    )  # fmt: skip


def _unassigned_since(owned: list[Interval], since: int) -> int | None:
    """Return when the last owner before a time lost the queue; None if it had it then, or if there was none."""
    before = [one for one in owned if one.from_time <= since]
    ended = before[-1].to_time if before else None
    return ended if ended is not None and ended <= since else None


def _changing(found: list[Rebalance], queue: MessageQueue) -> list[Rebalance]:
    """Return the rebalances that moved, interrupted or unassigned a queue, the oldest first."""
    narrowed = [
        one.model_copy(
            update={"moves": tuple(m for m in one.moves if MessageQueue(m.topic, m.broker, m.queue_id) == queue)}
        )
        for one in reversed(found)
    ]
    return [one for one in narrowed if one.moves]


def _concerns(incident: Incident, queue: MessageQueue) -> bool:
    """Return whether an incident is about a queue, or about no queue in particular."""
    if incident.queue_id is None:
        return incident.broker in {None, queue.broker}
    return (incident.topic, incident.broker, incident.queue_id) == (queue.topic, queue.broker, queue.queue_id)
