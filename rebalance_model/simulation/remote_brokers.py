"""The brokers as one simulated client reaches them (`rebalance_model.client.host.Brokers`)."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Protocol

from rebalance_model.broker.client_manage_processor import HeartbeatData
from rebalance_model.broker.consumer_group_info import ConsumerData
from rebalance_model.client.consumer import Consumer
from rebalance_model.client.consumer_config import MessageModel
from rebalance_model.client.host import BrokerError, MessageQueueAssignment
from rebalance_model.client.process_queue import Message
from rebalance_model.client.pull_flow_control import Pull, PullResult
from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.simulation.broker import Broker
from rebalance_model.simulation.connections import Connections, Outcome
from rebalance_model.simulation.name_server import Route
from rebalance_model.simulation.network import Channel
from rebalance_model.simulation.quiet_queue import QuietQueue
from rebalance_model.simulation.splitmix import SplitMix64

API_TIMEOUT = 3_000
"""mqClientApiTimeout; milliseconds."""
LOCK_TIMEOUT = 1_000
OFFSET_TIMEOUT = 5_000
LANGUAGE = "JAVA"
VERSION = 493
"""V5_4_0 in MQVersion."""


class RestingClient(Protocol):
    """A client whose queues may rest (`quiet_queue`)."""

    def wake(self) -> None:
        """Something happens to them."""

    def catch_up(self) -> None:
        """Somebody looks at them."""


class RemoteBrokers:
    """Questions of one client; `consumer` is set before the first of them."""

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
        """GET_CONSUMER_LIST_BY_GROUP of one random broker of the topic."""
        brokers = self.brokers_of(topic)
        if not brokers:
            raise BrokerError(f"no broker has {topic}")
        broker = brokers[0] if len(brokers) == 1 else self._random.choice(brokers)
        route = self.consumer.topic_subscribe_info_table.get(topic)  # the one that this rebalance goes by
        ids = await self._connections.ask(broker, lambda b, channel: b.consumer_ids(channel, group), API_TIMEOUT)
        known = self._views.get(topic)
        if known is None or known[1] is not route or (known[0] is not ids and known[0] != ids):
            self._views[topic] = ids, route
            self._client.wake()  # its share may be another one now
        return ids

    async def query_assignment(
        self, topic: str, group: str, strategy_name: str, message_model: MessageModel
    ) -> Sequence[MessageQueueAssignment] | None:
        """QUERY_ASSIGNMENT: no consumer of the simulation leaves its share to the broker."""
        del topic, group, strategy_name, message_model
        raise BrokerError("the simulated broker computes no shares")

    async def lock_batch_mq(
        self, broker: str, group: str, queues: AbstractSet[MessageQueue]
    ) -> AbstractSet[MessageQueue]:
        """LOCK_BATCH_MQ."""
        asked = sorted(queues, key=queue_order)  # a set's order changes with every run of Python
        return await self._connections.ask(
            broker, lambda b, channel: b.lock_batch_mq(channel, group, self._client_id, asked), LOCK_TIMEOUT
        )

    async def unlock_batch_mq(self, broker: str, group: str, queues: AbstractSet[MessageQueue]) -> None:
        """UNLOCK_BATCH_MQ."""
        asked = sorted(queues, key=queue_order)  # a set's order changes with every run of Python
        await self._connections.ask(
            broker, lambda b, channel: b.unlock_batch_mq(channel, group, self._client_id, asked), LOCK_TIMEOUT
        )

    def unlock_batch_mq_one_way(self, broker: str, group: str, queues: AbstractSet[MessageQueue]) -> None:
        """UNLOCK_BATCH_MQ."""
        asked = sorted(queues, key=queue_order)  # a set's order changes with every run of Python
        self._connections.send(broker, lambda b, channel: b.unlock_batch_mq(channel, group, self._client_id, asked))

    async def query_consumer_offset(self, group: str, queue: MessageQueue) -> int:
        """QUERY_CONSUMER_OFFSET."""
        return await self._connections.ask(
            queue.broker, lambda b, channel: b.query_consumer_offset(channel, group, queue), OFFSET_TIMEOUT
        )

    def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """UPDATE_CONSUMER_OFFSET."""
        if self._commits is None:
            self._connections.send(
                queue.broker, lambda b, channel: b.update_consumer_offsets(channel, group, [(queue, offset)])
            )
        else:
            self._commits.setdefault(queue.broker, []).append((queue, offset))

    def persist_all(self) -> None:
        """The timer's commits: those for one broker follow each other on its connection, so they travel as one."""
        self._client.catch_up()
        self._commits = {}
        self.consumer.persist_consumer_offset()
        commits, self._commits = self._commits, None
        group = self.consumer.config.group
        for broker, offsets in commits.items():
            self._connections.send(broker, partial(_commit, group, offsets))

    async def max_offset(self, queue: MessageQueue) -> int:
        """GET_MAX_OFFSET."""
        return await self._connections.ask(queue.broker, lambda b, channel: b.max_offset(channel, queue), API_TIMEOUT)

    async def search_offset(self, queue: MessageQueue, timestamp: int) -> int:
        """SEARCH_OFFSET_BY_TIMESTAMP."""
        return await self._connections.ask(
            queue.broker, lambda b, channel: b.search_offset(channel, queue, timestamp), API_TIMEOUT
        )

    async def send_heartbeat_to_all_brokers(self) -> None:
        """HEART_BEAT to each broker of the client's topics, unless a heartbeat is under way (lockHeartbeat)."""
        await self.send_heartbeats(self.known_brokers())

    async def send_heartbeats(self, brokers: Sequence[str]) -> bool:
        """HEART_BEAT to these; whether it was sent at all."""
        if self._heartbeating:
            return False
        self._heartbeating = True
        heartbeat = self._heartbeat()
        for broker in brokers:
            try:
                await self._connections.ask(
                    broker, lambda b, channel: b.heart_beat(channel, heartbeat, LANGUAGE, VERSION), API_TIMEOUT
                )
            except BrokerError:
                continue
        self._heartbeating = False
        return True

    def announce(self, broker: Broker, channel: Channel) -> None:
        """A HEART_BEAT that nobody waits for; at the broker."""
        broker.heart_beat(channel, self._heartbeat(), LANGUAGE, VERSION)

    async def unregister(self) -> None:
        """UNREGISTER_CLIENT at each broker of the client's topics."""
        group = self.consumer.config.group
        for broker in self.known_brokers():
            try:
                await self._connections.ask(
                    broker, lambda b, channel: b.unregister_client(channel, self._client_id, group), API_TIMEOUT
                )
            except BrokerError:
                continue

    async def send_message_back(self, group: str, queue: MessageQueue, message: Message, delay_level: int) -> None:
        """CONSUMER_SEND_MSG_BACK."""
        await self._connections.ask(
            queue.broker,
            lambda b, channel: b.send_message_back(channel, group, message.reconsume_times, delay_level),
            OFFSET_TIMEOUT,
        )

    async def send_to_retry_topic(self, group: str, queue: MessageQueue, message: Message) -> None:
        """SEND_MESSAGE to the retry topic, which does the same."""
        await self.send_message_back(group, queue, message, 0)

    async def pull(self, quiet: QuietQueue, pull: Pull) -> PullResult:
        """PULL_MESSAGE."""

        def begin(broker: Broker, channel: Channel, outcome: Outcome[PullResult]) -> None:
            broker.pulls.pull(channel, self.consumer.config.group, quiet, pull, outcome)

        return await self._connections.pull(quiet.queue.broker, begin)

    def known_brokers(self) -> list[str]:
        """The brokers of all topics that are subscribed."""
        topics = self.consumer.subscription_inner
        return list(dict.fromkeys(name for topic in topics for name in self.brokers_of(topic)))

    def brokers_of(self, topic: str) -> list[str]:
        """The brokers of a topic by its route, in its order."""
        route = self.consumer.topic_subscribe_info_table.get(topic)
        return route.brokers if isinstance(route, Route) else []

    def _heartbeat(self) -> HeartbeatData:
        config = self.consumer.config
        data = ConsumerData(
            config.group,
            "CONSUME_PASSIVELY",
            config.message_model,
            config.consume_from_where,
            tuple(self.consumer.subscription_inner.values()),
        )
        return HeartbeatData(config.client_id, (data,))


def _commit(group: str, offsets: list[tuple[MessageQueue, int]], broker: Broker, channel: Channel) -> None:
    broker.update_consumer_offsets(channel, group, offsets)
