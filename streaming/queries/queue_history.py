"""Query one queue over a period: owners, offsets, lag, lock, rebalances and incidents."""

from typing import Any

from rebalance_model.entities import MessageQueue
from streaming.base.errors import NotFoundError, UserError
from streaming.base.language import gettext
from streaming.base.statements import statements_of, with_parts
from streaming.base.terminal import command_line, group_argument
from streaming.queries.group_at import GroupAt
from streaming.queries.incidents import group_incidents
from streaming.queries.observed import observed
from streaming.queries.ownership import queues
from streaming.queries.present import present
from streaming.queries.rebalances import rebalances
from streaming.queries.results import Incident, Interval, QueueDetail, QueueHistory, QueueObservation, Rebalance
from streaming.tables.observations import LOOK_BACK_MS
from streaming.tables.reader import ReadModel

_HOUR_MS = 3_600_000
SLICES = 300
"""The resolution: of each kind the last observation in each part of a period is read."""
_COLUMNS = ("broker_offset", "commit_offset", "lag", "lag_is_at_least", "waiting_ms", "lock_at")
_SQL = statements_of(__name__)
_OBSERVATIONS = with_parts(_SQL["observations"], observed=observed(_COLUMNS, "p.broker = $broker", "$topic"))


def queue_detail(
    model: ReadModel, group_at: GroupAt, queue: MessageQueue, since: int | None = None
) -> QueueDetail:  # fmt: skip
    """Return a queue at an instant, and over the period before it.

    Args:
        model: the tables.
        group_at: its group, at the end of the period.
        queue: the queue.
        since: the begin of the period, epoch milliseconds; None: an hour before its end.

    Raises:
        NotFoundError: the group has no such queue, or did not have it by then.
        UserError: the period is empty.
    """
    until = present(model, group_at.at)
    begin = since if since is not None else until - _HOUR_MS
    if begin >= until:
        raise UserError(gettext("The period ends before it begins: choose an earlier --since or a later --at."))
    of_topic = queues(model, group_at, queue.topic, retry=True)
    state = next((q for q in of_topic if (q.broker, q.queue_id) == (queue.broker, queue.queue_id)), None)
    history = queue_history(model, group_at, queue, begin, until)
    if not (state or history.intervals or history.observations):
        raise NotFoundError(
            gettext(
                "{group} had no queue {queue} in this period: `{command}` lists its queues.",
                group=group_at.group, queue=queue,
                command=command_line("rebalance-watch", "group", "assignments", *group_argument(group_at.group)),
            )
        )  # fmt: skip
    return QueueDetail(queue=state, history=history)


def queue_history(model: ReadModel, group_at: GroupAt, queue: MessageQueue, since: int, until: int) -> QueueHistory:
    """Return a queue over a period.

    Args:
        model: the tables.
        group_at: its group; the instant is not used.
        queue: the queue.
        since: the beginning of the period, epoch milliseconds.
        until: its end.
    """
    place: dict[str, Any] = {"topic": queue.topic, "broker": queue.broker, "queue_id": queue.queue_id}
    of_queue = {"cluster": group_at.cluster, "group": group_at.group, **place, "until": until}
    owned = [Interval(**row).by(until) for row in model.rows(_SQL["intervals"], of_queue)]
    slices = {"since": since, "back": LOOK_BACK_MS, "step": max(1, (until - since) // SLICES)}
    observations = model.rows(_OBSERVATIONS, of_queue | slices)
    incidents = group_incidents(model, group_at._replace(instant=until), since=since)
    return QueueHistory(
        cluster=group_at.cluster, group=group_at.group, **place, since=since, until=until,
        unassigned_since=_unassigned_since(owned, since),
        intervals=tuple(interval for interval in owned if interval.to_time is None or interval.to_time >= since),
        rebalances=tuple(_changing(rebalances(model, group_at, since, until), queue)),
        incidents=tuple(i for i in reversed(incidents) if i.opened_at <= until and _concerns(i, queue)),
        observations=tuple(QueueObservation(**row) for row in observations),
    )  # fmt: skip


def _unassigned_since(owned: list[Interval], since: int) -> int | None:
    """Return when the last owner before a time lost the queue; None if it had it then, or if there was none."""
    before = [interval for interval in owned if interval.from_time <= since]
    ended = before[-1].to_time if before else None
    return ended if ended is not None and ended <= since else None


def _changing(newest_first: list[Rebalance], queue: MessageQueue) -> list[Rebalance]:
    """Return the rebalances that moved, interrupted or unassigned a queue, the oldest first."""
    narrowed = [
        rebalance.model_copy(
            update={"moves": tuple(m for m in rebalance.moves if MessageQueue(m.topic, m.broker, m.queue_id) == queue)}
        )
        for rebalance in reversed(newest_first)
    ]
    return [rebalance for rebalance in narrowed if rebalance.moves]


def _concerns(incident: Incident, queue: MessageQueue) -> bool:
    """Return whether an incident is about a queue, or about no queue in particular."""
    if incident.queue_id is None:
        return incident.broker in {None, queue.broker}
    return (incident.topic, incident.broker, incident.queue_id) == (queue.topic, queue.broker, queue.queue_id)
