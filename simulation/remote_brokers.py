"""The brokers as one simulated client reaches them (`simulation.rocketmq.client.host.Brokers`)."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Protocol

from rebalance_model.broker.consumer_group_info import ConsumerData
from rebalance_model.entities import MessageQueue, queue_order
from simulation.broker import Broker
from simulation.connections import Connections, Outcome
from simulation.name_server import SimulatedRoute
from simulation.network import SimulatedChannel
from simulation.pull_hold import RestingQueue
from simulation.rocketmq.broker.client_manage_processor import HeartbeatData
from simulation.rocketmq.client.cached_messages import Message
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.consumer_config import ConsumerKind, MessageModel
from simulation.rocketmq.client.host import BrokerError, MessageQueueAssignment
from simulation.rocketmq.client.pull_flow_control import Pull, PullResult
from simulation.splitmix import SplitMix64

API_TIMEOUT = 3_000
"""mqClientApiTimeout; milliseconds."""
LOCK_TIMEOUT = 1_000
OFFSET_TIMEOUT = 5_000
DEFAULT_MAX_RECONSUME_TIMES = 16
"""The value that a concurrent consumer sends if maxReconsumeTimes is -1
(DefaultMQPushConsumerImpl.getMaxReconsumeTimes)."""
LANGUAGE = "JAVA"
VERSION = 493
"""V5_4_0 in MQVersion."""


class RestingClient(Protocol):
    """A client whose queues may rest (`quiet_queue`)."""

    def wake(self) -> None:
        """Simulate the client's queues at rest from now on."""

    def catch_up(self) -> None:
        """Bring the client's queues at rest to the present."""


class RemoteBrokers:
    """The requests of one client; `consumer` is set before the first of them."""

    consumer: Consumer

    def __init__(self, client: RestingClient, connections: Connections, client_id: str, random: SplitMix64) -> None:
        self._client = client
        self._connections = connections
        self._views: dict[str, tuple[tuple[str, ...], tuple[MessageQueue, ...] | None]] = {}
        self._client_id = client_id
        self._random = random
        self._heartbeating = False
        self._commits: dict[str, list[tuple[MessageQueue, int]]] | None = None

    async def find_consumer_id_list(self, topic: str, group: str) -> Sequence[str]:
        """Send GET_CONSUMER_LIST_BY_GROUP to one random broker of the topic."""
        brokers = self.brokers_of(topic)
        if not brokers:
            raise BrokerError(f"no broker has {topic}")
        broker = brokers[0] if len(brokers) == 1 else self._random.choice(brokers)
        route = self.consumer.topic_subscribe_info_table.get(topic)  # the one that this rebalance goes by
        ids = await self._connections.request(broker, lambda b, channel: b.consumer_ids(channel, group), API_TIMEOUT)
        known = self._views.get(topic)
        if known is None or known[1] is not route or (known[0] is not ids and known[0] != ids):
            self._views[topic] = ids, route
            self._client.wake()  # its share may be another one now
        return ids

    async def query_assignment(
        self, topic: str, group: str, strategy_name: str, message_model: MessageModel
    ) -> Sequence[MessageQueueAssignment] | None:
        """Send QUERY_ASSIGNMENT to one random broker of the topic."""
        del message_model  # one that broadcasts rebalances itself
        brokers = self.brokers_of(topic)
        if not brokers:
            raise BrokerError(f"no broker has {topic}")
        broker = brokers[0] if len(brokers) == 1 else self._random.choice(brokers)
        return await self._connections.request(
            broker,
            lambda b, channel: b.query_assignment(channel, group, self._client_id, topic, strategy_name),
            API_TIMEOUT,
        )

    async def lock_batch_mq(
        self, broker: str, group: str, queues: AbstractSet[MessageQueue]
    ) -> AbstractSet[MessageQueue]:
        """Send LOCK_BATCH_MQ."""
        requested = sorted(queues, key=queue_order)  # a set's order changes with every run of Python
        return await self._connections.request(
            broker, lambda b, channel: b.lock_batch_mq(channel, group, self._client_id, requested), LOCK_TIMEOUT
        )

    async def unlock_batch_mq(self, broker: str, group: str, queues: AbstractSet[MessageQueue]) -> None:
        """Send UNLOCK_BATCH_MQ."""
        requested = sorted(queues, key=queue_order)  # a set's order changes with every run of Python
        await self._connections.request(
            broker, lambda b, channel: b.unlock_batch_mq(channel, group, self._client_id, requested), LOCK_TIMEOUT
        )

    def unlock_batch_mq_one_way(self, broker: str, group: str, queues: AbstractSet[MessageQueue]) -> None:
        """Send UNLOCK_BATCH_MQ one-way."""
        requested = sorted(queues, key=queue_order)  # a set's order changes with every run of Python
        self._connections.send(broker, lambda b, channel: b.unlock_batch_mq(channel, group, self._client_id, requested))

    async def query_consumer_offset(self, group: str, queue: MessageQueue) -> int:
        """Send QUERY_CONSUMER_OFFSET."""
        return await self._connections.request(
            queue.broker, lambda b, channel: b.query_consumer_offset(channel, group, queue), OFFSET_TIMEOUT
        )

    def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Send UPDATE_CONSUMER_OFFSET, or collect it for `persist_all`."""
        if self._commits is None:
            self._connections.send(
                queue.broker, lambda b, channel: b.update_consumer_offsets(channel, group, [(queue, offset)])
            )
        else:
            self._commits.setdefault(queue.broker, []).append((queue, offset))

    def persist_all(self) -> None:
        """Send the timer's commits: those for one broker follow each other on its connection and are sent as one."""
        self._client.catch_up()
        self._commits = {}
        self.consumer.persist_consumer_offset()
        commits, self._commits = self._commits, None
        group = self.consumer.config.group
        for broker, offsets in commits.items():
            self._connections.send(broker, partial(_commit, group, offsets))

    async def max_offset(self, queue: MessageQueue) -> int:
        """Send GET_MAX_OFFSET."""
        return await self._connections.request(
            queue.broker, lambda b, channel: b.max_offset(channel, queue), API_TIMEOUT
        )

    async def search_offset(self, queue: MessageQueue, timestamp: int) -> int:
        """Send SEARCH_OFFSET_BY_TIMESTAMP."""
        return await self._connections.request(
            queue.broker, lambda b, channel: b.search_offset(channel, queue, timestamp), API_TIMEOUT
        )

    async def send_heartbeat_to_all_brokers(self) -> None:
        """Send HEART_BEAT to each broker of the client's topics, unless one is in progress (lockHeartbeat)."""
        await self.send_heartbeats(self.known_brokers())

    async def send_heartbeats(self, brokers: Sequence[str]) -> bool:
        """Send HEART_BEAT to these brokers; return False if another heartbeat is in progress."""
        if self._heartbeating:
            return False
        self._heartbeating = True
        heartbeat = self._heartbeat()
        for broker in brokers:
            try:
                await self._connections.request(
                    broker, lambda b, channel: b.heart_beat(channel, heartbeat, LANGUAGE, VERSION), API_TIMEOUT
                )
            except BrokerError:
                continue
        self._heartbeating = False
        return True

    def announce(self, broker: Broker, channel: SimulatedChannel) -> None:
        """Deliver a HEART_BEAT at the broker; the client does not wait for the answer."""
        broker.heart_beat(channel, self._heartbeat(), LANGUAGE, VERSION)

    async def unregister(self) -> None:
        """Send UNREGISTER_CLIENT to each broker of the client's topics."""
        group = self.consumer.config.group
        for broker in self.known_brokers():
            try:
                await self._connections.request(
                    broker, lambda b, channel: b.unregister_client(channel, self._client_id, group), API_TIMEOUT
                )
            except BrokerError:
                continue

    async def send_message_back(self, group: str, queue: MessageQueue, message: Message, delay_level: int) -> None:
        """Send CONSUMER_SEND_MSG_BACK."""
        limit = self.consumer.config.max_reconsume_times
        tries_max = DEFAULT_MAX_RECONSUME_TIMES if limit == -1 else limit
        await self._connections.request(
            queue.broker,
            lambda b, channel: b.send_message_back(channel, group, message.reconsume_times, delay_level, tries_max),
            OFFSET_TIMEOUT,
        )

    async def send_to_retry_topic(self, group: str, queue: MessageQueue, message: Message) -> None:
        """Send a message to the retry topic; here the same as `send_message_back`."""
        await self.send_message_back(group, queue, message, 0)

    async def pull(self, quiet: RestingQueue, pull: Pull) -> PullResult:
        """Send PULL_MESSAGE."""

        def begin(broker: Broker, channel: SimulatedChannel, outcome: Outcome[PullResult]) -> None:
            broker.pulls.pull(channel, self.consumer.config.group, quiet, pull, outcome)

        return await self._connections.pull(quiet.queue.broker, begin)

    def known_brokers(self) -> list[str]:
        """Return the brokers of all subscribed topics."""
        if self.consumer.config.kind is ConsumerKind.PULL:  # it knows them by the queues that its user requests
            return self._connections.known_brokers()
        topics = self.consumer.subscription_inner
        return list(dict.fromkeys(name for topic in topics for name in self.brokers_of(topic)))

    def brokers_of(self, topic: str) -> list[str]:
        """Return the brokers of a topic, in the order of its route."""
        route = self.consumer.topic_subscribe_info_table.get(topic)
        return route.brokers if isinstance(route, SimulatedRoute) else []

    def _heartbeat(self) -> HeartbeatData:
        config = self.consumer.config
        data = ConsumerData(
            config.group,
            config.consume_type,
            config.message_model,
            config.consume_from_where,
            tuple(self.consumer.subscription_inner.values()),
        )
        return HeartbeatData(config.client_id, (data,))


def _commit(group: str, offsets: list[tuple[MessageQueue, int]], broker: Broker, channel: SimulatedChannel) -> None:
    broker.update_consumer_offsets(channel, group, offsets)
