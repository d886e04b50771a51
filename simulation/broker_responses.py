"""A simulated broker's answers to admin requests (AdminBrokerProcessor), as fields of events."""

from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue, java_order
from rebalance_model.observe.events import Connection, OffsetInfo, TimeSpanInfo, TopicOffset
from simulation.broker import Broker


def connections(broker: Broker, group: str) -> tuple[Connection, ...]:
    """Return a group's members (GET_CONSUMER_CONNECTION_LIST, 203), sorted as the collector does; may be empty."""
    info = broker.manager.consumer_table.get(group)
    members = () if info is None else info.channel_info_table.values()
    return tuple(
        Connection(client_id=one.client_id, channel=one.channel, language=one.language, version=one.version)
        for one in sorted(members, key=lambda one: (one.client_id, one.channel))
    )


def consume_stats(broker: Broker, group: str) -> tuple[OffsetInfo, ...]:
    """Return a group's offsets (GET_CONSUME_STATS, 208).

    Only subscribed topics are included while the group subscribes any (AdminBrokerProcessor.getConsumeStats), and the
    retry topics of popped ones, else all topics with offsets.
    """
    broker.pulls.catch_up(group)
    known = broker.manager.consumer_table.get(group)
    subscribes = known is not None and bool(known.subscription_table)
    rows: list[OffsetInfo] = []
    for topic in sorted(broker.offsets.which_topic_by_consumer(group), key=java_order):
        if topic in broker.topics and (
            not subscribes
            or broker.manager.find_subscription_data(group, topic) is not None
            or topic.startswith(f"{RETRY_TOPIC_PREFIX}{group}_")
        ):
            rows += (_offsets(broker, group, topic, queue_id) for queue_id in range(broker.topics[topic]))
    return tuple(rows)


def consume_time_span(broker: Broker, group: str, topic: str) -> tuple[TimeSpanInfo, ...]:
    """Return how long the next message of each queue has waited (QUERY_CONSUME_TIME_SPAN, 303).

    A queue without a committed offset is left out, as the collector does: a broker's value for it is meaningless.
    """
    broker.pulls.catch_up(group)
    offsets = broker.offsets
    committed = [offsets.query_offset(group, topic, queue_id) for queue_id in range(broker.topics[topic])]
    return tuple(_waiting(broker, topic, number, offset) for number, offset in enumerate(committed) if offset >= 0)


def topic_stats(broker: Broker, topic: str) -> tuple[TopicOffset, ...]:
    """Return the offsets of a topic (GET_TOPIC_STATS_INFO, 202); none if it does not exist, as the collector does."""
    return tuple(
        _stored(broker, MessageQueue(topic, broker.name, number)) for number in range(broker.topics.get(topic, 0))
    )


def _stored(broker: Broker, queue: MessageQueue) -> TopicOffset:
    log = broker.logs[queue]
    newest = log.max_offset(broker.world.scheduler.now)
    stored = log.arrival(newest - 1) if newest else None
    return TopicOffset(
        mq=queue, min_offset=0, max_offset=newest, last_time=0 if stored is None else broker.clock.at(stored)
    )


def _waiting(broker: Broker, topic: str, queue_id: int, offset: int) -> TimeSpanInfo:
    queue = MessageQueue(topic, broker.name, queue_id)
    log, now = broker.logs[queue], broker.world.scheduler.now
    stored = log.arrival(offset) if offset < log.max_offset(now) else None
    return TimeSpanInfo(mq=queue, delay_time=0 if stored is None else broker.clock.now() - broker.clock.at(stored))


def _offsets(broker: Broker, group: str, topic: str, queue_id: int) -> OffsetInfo:
    queue = MessageQueue(topic, broker.name, queue_id)
    log = broker.logs[queue]
    consumed = max(broker.offsets.query_offset(group, topic, queue_id), 0)
    stored = log.arrival(consumed - 1) if consumed else None
    return OffsetInfo(
        mq=queue,
        broker_offset=log.max_offset(broker.world.scheduler.now),
        consumer_offset=consumed,
        pull_offset=max(broker.offsets.query_pull_offset(group, topic, queue_id), 0),
        last_time=0 if stored is None else broker.clock.at(stored),
    )
