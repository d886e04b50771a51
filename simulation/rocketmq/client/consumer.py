"""State that the parts of one consumer share (DefaultMQPushConsumerImpl and the tables of its RebalanceImpl)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rebalance_model.broker.consumer_group_info import SubscriptionData
from rebalance_model.dialect import RELEASE_5, Dialect
from rebalance_model.entities import MessageQueue, queue_order
from simulation.rocketmq.client.cached_messages import CachingProcessQueue
from simulation.rocketmq.client.consumer_config import ConsumerConfig
from simulation.rocketmq.client.host import Brokers, Host
from simulation.rocketmq.client.offset_store import OffsetStore
from simulation.rocketmq.client.pull_request import PopProcessQueue


@dataclass(slots=True, eq=False)
class Consumer:
    """One consumer of a client instance: its settings, its environment and its tables."""

    config: ConsumerConfig
    brokers: Brokers
    host: Host
    offset_store: OffsetStore
    dialect: Dialect = RELEASE_5
    running: bool = True
    paused: bool = False
    subscription_inner: dict[str, SubscriptionData] = field(default_factory=dict)
    topic_subscribe_info_table: dict[str, tuple[MessageQueue, ...]] = field(default_factory=dict)
    """The readable queues of each subscribed topic, sorted as Java sorts them before it allocates."""
    process_queue_table: dict[MessageQueue, CachingProcessQueue] = field(default_factory=dict)
    pop_process_queue_table: dict[MessageQueue, PopProcessQueue] = field(default_factory=dict)

    def update_topic_subscribe_info(self, topic: str, queues: Iterable[MessageQueue]) -> None:
        """Store a topic's route (updateTopicSubscribeInfo); ignore a topic that is not subscribed."""
        if topic in self.subscription_inner:
            self.topic_subscribe_info_table[topic] = tuple(sorted(set(queues), key=queue_order))

    def working_message_queues(self, topic: str) -> set[MessageQueue]:
        """Return the topic's queues that are consumed, pulled or popped (getWorkingMessageQueue)."""
        pulled = {mq for mq, pq in self.process_queue_table.items() if mq.topic == topic and not pq.dropped}
        popped = {mq for mq, pq in self.pop_process_queue_table.items() if mq.topic == topic and not pq.dropped}
        return pulled | popped

    def persist_consumer_offset(self) -> None:
        """Commit all offsets of a running consumer (persistConsumerOffset: after 10 s, then every 5 s)."""
        if self.running:
            self.offset_store.persist_all(self.process_queue_table.keys())
