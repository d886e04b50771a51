"""What an admin client asks a broker (AdminBrokerProcessor): answers in the form of events."""

from rebalance_model.entities import MessageQueue, java_order
from rebalance_model.observe.events import Connection, OffsetInfo
from rebalance_model.simulation.broker import Broker


def connections(broker: Broker, group: str) -> tuple[Connection, ...]:
    """A group's members (GET_CONSUMER_CONNECTION_LIST, 203), in the collector's order; nobody is no error."""
    info = broker.manager.consumer_table.get(group)
    members = () if info is None else info.channel_info_table.values()
    return tuple(
        Connection(client_id=one.client_id, channel=one.channel, language=one.language, version=one.version)
        for one in sorted(members, key=lambda one: (one.client_id, one.channel))
    )


def consume_stats(broker: Broker, group: str) -> tuple[OffsetInfo, ...]:
    """A group's offsets (GET_CONSUME_STATS, 208): of its subscribed topics while a member is online, else of all."""
    broker.pulls.catch_up(group)
    online = group in broker.manager.consumer_table
    rows: list[OffsetInfo] = []
    for topic in sorted(broker.offsets.which_topic_by_consumer(group), key=java_order):
        if topic in broker.topics and (not online or broker.manager.find_subscription_data(group, topic) is not None):
            rows += (_row(broker, group, topic, queue_id) for queue_id in range(broker.topics[topic]))
    return tuple(rows)


def _row(broker: Broker, group: str, topic: str, queue_id: int) -> OffsetInfo:
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
