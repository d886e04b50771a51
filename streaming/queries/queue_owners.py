"""Query who owned a queue in every group that has it: a queue's name alone says no group."""

from pydantic import Field

from rebalance_model.entities import MessageQueue
from streaming.base.errors import NotFoundError, UserError
from streaming.base.language import gettext
from streaming.base.nearest import did_you_mean
from streaming.base.statements import statements_of
from streaming.queries.group_at import GroupAt, explain_nothing, find_group
from streaming.queries.groups import LastGroupState, is_divided, last_group_state
from streaming.queries.ownership import last_owner, who_owned
from streaming.queries.results import Interval, QueryResult
from streaming.tables.reader import ReadModel

_SQL = statements_of(__name__)


class QueueOwner(QueryResult):
    """The owner of a queue in one group at an instant."""

    cluster: str
    group: str
    topic: str
    broker: str
    queue_id: int
    owner: Interval | None = Field(description="Its ownership interval; null: see `unknown`, else it was unassigned.")
    previous: Interval | None = Field(description="The last interval before, if it was unassigned.")
    unknown: str | None = Field(description="Why its owner is unknown, or there is none by design; null: it is known.")

    @property
    def queue(self) -> MessageQueue:
        """The queue."""
        return MessageQueue(self.topic, self.broker, self.queue_id)


def queue_owners(
    model: ReadModel,
    topic: str,
    broker: str | None,
    queue_id: int,
    *,
    cluster: str | None = None,
    at: int | None = None,
) -> list[QueueOwner]:
    """Return the owner of a queue in each group that has it, by cluster and group.

    Args:
        model: the tables.
        topic: its topic.
        broker: its broker; None: the one that has a queue of the topic with this number.
        queue_id: its number.
        cluster: only in this cluster.
        at: epoch milliseconds; None is now.

    Raises:
        NotFoundError: no group has such a queue, or had it yet.
        UserError: the broker is not given and several have such a queue; or history begins after the instant.
    """
    queue, groups = _groups_of(model, topic, broker, queue_id, cluster, at)
    answers = []
    refused: UserError | None = None
    for of_cluster, group in groups:
        try:
            group_at = find_group(model, group, of_cluster, at)
            answers.append(queue_owner(model, group_at, queue))
        except UserError as error:  # the group, or its queue, did not exist yet
            refused = error
    if refused is not None and not answers:
        raise refused
    return answers


def only_group_of(
    model: ReadModel,
    topic: str,
    broker: str | None,
    queue_id: int,
    *,
    cluster: str | None = None,
    at: int | None = None,
) -> tuple[GroupAt, MessageQueue]:
    """Return the only group that has a queue, and the queue; see `queue_owners`.

    Raises:
        NotFoundError: no group has such a queue, or had it yet.
        UserError: several have it; or see `queue_owners`.
    """
    queue, groups = _groups_of(model, topic, broker, queue_id, cluster, at)
    if len(groups) > 1:
        names = ", ".join(f"{group} ({of_cluster})" for of_cluster, group in groups)
        raise UserError(
            gettext("Several groups have the queue {queue}: specify one of {names}.", queue=queue, names=names)
        )
    [(of_cluster, group)] = groups
    return find_group(model, group, of_cluster, at), queue


def _groups_of(
    model: ReadModel, topic: str, broker: str | None, queue_id: int, cluster: str | None, at: int | None
) -> tuple[MessageQueue, list[tuple[str, str]]]:
    """Return the queue with these names, and the groups that have it: cluster and name."""
    parameters = {"topic": topic, "broker": broker, "queue_id": queue_id, "cluster": cluster}
    rows = model.rows(_SQL["groups_of_queue"], parameters)
    if not rows:
        explain_nothing(model, cluster, at)
        raise NotFoundError(_unknown(model, topic, broker, queue_id, cluster))
    queues = {MessageQueue(row["topic"], row["broker"], row["queue_id"]) for row in rows}
    if len(queues) > 1:
        names = ", ".join(sorted(map(str, queues)))
        raise UserError(gettext("Several brokers have such a queue: specify one of {names}.", names=names))
    [queue] = queues
    return queue, [(row["cluster"], row["group"]) for row in rows]


def queue_owner(model: ReadModel, group_at: GroupAt, queue: MessageQueue) -> QueueOwner:
    """Return the owner of a queue in one group.

    Raises:
        NotFoundError: the group has no such queue, or did not have it yet.
    """
    owner, previous, unknown = None, None, None
    try:
        owner = who_owned(model, group_at, queue)
        if owner is None:
            previous, unknown = (
                last_owner(model, group_at, queue),
                _why_unknown(last_group_state(model, group_at), group_at.group),
            )
    except NotFoundError:
        raise
    except UserError as error:  # broadcasting, or telemetry had stopped
        unknown = str(error)
    return QueueOwner(
        cluster=group_at.cluster, group=group_at.group, topic=queue.topic, broker=queue.broker, queue_id=queue.queue_id,
        owner=owner, previous=previous, unknown=unknown,
    )  # fmt: skip


def _why_unknown(last: LastGroupState, group: str) -> str | None:
    """Return why a queue without a known owner is not simply unassigned; None if it is."""
    sharing = last.coverage.sharing
    if sharing == "POPPED":
        return gettext("The clients of {group} pop: they share its queues.", group=group)
    divided = is_divided(message_model=last.message_model, consume_type=last.consume_type, sharing=sharing)
    if divided and last.coverage.owners_known:
        return None
    return gettext("The owner is unknown: not every client of {group} reports which queues it has.", group=group)


def _unknown(model: ReadModel, topic: str, broker: str | None, queue_id: int, cluster: str | None) -> str:
    queues = {MessageQueue(**row) for row in model.rows(_SQL["queues"], {"cluster": cluster})}
    topics = {queue.topic for queue in queues}
    if topic not in topics:
        advice = did_you_mean(topic, topics) or gettext("known topics: {names}.", names=", ".join(sorted(topics)[:10]))
        return gettext("No group has a topic {topic}: {advice}", topic=topic, advice=advice)
    ids = [queue.queue_id for queue in queues if queue.topic == topic]
    name = f"{topic}@{broker}:{queue_id}" if broker is not None else f"{topic}:{queue_id}"
    return gettext(
        "No group has a queue {queue}: {topic} has queues {first} to {last} on {brokers}.",
        queue=name, topic=topic, first=min(ids), last=max(ids),
        brokers=", ".join(sorted({queue.broker for queue in queues if queue.topic == topic})),
    )  # fmt: skip
