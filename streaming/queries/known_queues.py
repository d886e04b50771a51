"""Find a queue of a group, or say in a sentence that the group has, or had, no such topic or queue."""

from rebalance_model.entities import MessageQueue
from streaming.base.errors import NotFoundError, UserError
from streaming.base.language import gettext
from streaming.base.nearest import did_you_mean
from streaming.base.statements import statements_of
from streaming.base.times import written
from streaming.queries.group_at import GroupAt
from streaming.tables.reader import ReadModel

_SQL = statements_of(__name__)


def named_queue(
    model: ReadModel, group_at: GroupAt, topic: str | None, name: str, queue_id: int
) -> MessageQueue:  # fmt: skip
    """Return the queue that a person has named by topic, broker and number, or by topic and number alone.

    Args:
        model: the tables.
        group_at: its group.
        topic: its topic; None: ``name`` is the topic, and the broker is the one that has a queue of that number.
        name: its broker, or its topic.
        queue_id: its number.

    Raises:
        NotFoundError: the broker is not named, and the topic or the queue is unknown.
        UserError: the broker is not named, and several brokers have a queue of that number.
    """
    return MessageQueue(topic, name, queue_id) if topic is not None else _only_queue(model, group_at, name, queue_id)


def _only_queue(model: ReadModel, group_at: GroupAt, topic: str, queue_id: int) -> MessageQueue:
    group = group_at.group
    queues = [mq for mq in _known_queues(model, group_at) if (mq.topic, mq.queue_id) == (topic, queue_id)]
    if not queues:
        check_known(model, group_at, topic)
        raise NotFoundError(
            gettext("Unknown queue {queue_id} of {topic} in {group}.", queue_id=queue_id, topic=topic, group=group)
        )
    if len(queues) > 1:
        names = ", ".join(sorted(map(str, queues)))
        raise UserError(
            gettext(
                "Several brokers have a queue {queue_id} of {topic}: specify one of {names}.",
                queue_id=queue_id,
                topic=topic,
                names=names,
            )
        )
    return queues[0]


def check_known(model: ReadModel, group_at: GroupAt, topic: str, queue: MessageQueue | None = None) -> None:
    """Check that a group has, or had, a topic, and a queue of it.

    Raises:
        NotFoundError: it never had.
    """
    queues = _known_queues(model, group_at)
    topics = {mq.topic for mq in queues}
    if topic not in topics:
        names = ", ".join(sorted(topics)) or gettext("none")
        advice = did_you_mean(topic, topics) or gettext("known topics: {names}.", names=names)
        raise NotFoundError(
            gettext("Unknown topic {topic} of {group}: {advice}", topic=topic, group=group_at.group, advice=advice)
        )
    if queue is not None and queue not in queues:
        brokers = sorted({mq.broker for mq in queues if mq.topic == topic})
        ids = [mq.queue_id for mq in queues if mq.topic == topic]
        raise NotFoundError(
            gettext(
                "Unknown queue {queue} of {group}: {topic} has queues {first} to {last} on {brokers}.",
                queue=queue,
                group=group_at.group,
                topic=topic,
                first=min(ids),
                last=max(ids),
                brokers=", ".join(brokers),
            )
        )


def check_existed(model: ReadModel, group_at: GroupAt, queue: MessageQueue) -> None:
    """Check that the queue was known at the instant: one that did not exist yet was not unassigned.

    Raises:
        NotFoundError: the queue was first seen later.
    """
    parameters = {**group_at._asdict(), "topic": queue.topic, "broker": queue.broker, "queue_id": queue.queue_id}
    if model.rows(_SQL["existed"], parameters):
        return
    [row] = model.rows(_SQL["first_seen"], parameters)
    if row["first"] is not None:
        raise NotFoundError(
            gettext(
                "{group} had no queue {queue} at that time: it was first seen at {time}.",
                group=group_at.group,
                queue=queue,
                time=written(row["first"]),
            )
        )


def _known_queues(model: ReadModel, group_at: GroupAt) -> set[MessageQueue]:
    rows = model.rows(_SQL["queues"], {"cluster": group_at.cluster, "group": group_at.group})
    return {MessageQueue(row["topic"], row["broker"], row["queue_id"]) for row in rows}
