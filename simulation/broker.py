"""A simulated broker: the tables and processors of `simulation.rocketmq.broker` behind connections, with timers.

Every request is a method that takes the channel on which it came and answers at once, or raises BrokerError. Long
polling is in `pull_hold`.
"""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import NamedTuple

from rebalance_model.allocation.server_side import QueryAssignment, QueryAssignmentProcessor
from rebalance_model.broker.broker_config import QUERY_NOT_FOUND, SUCCESS, SYSTEM_ERROR
from rebalance_model.broker.consumer_manager import SCAN_PERIOD, AnyConsumerGroupEvent, ConsumerManager, Register
from rebalance_model.broker.rebalance_lock_manager import RebalanceLockManager
from rebalance_model.entities import (
    DEAD_LETTER_TOPIC_PREFIX,
    RETRY_TOPIC_PREFIX,
    JavaOrdered,
    MessageQueue,
    in_java_order,
    queue_order,
)
from simulation.hook import BrokerHook
from simulation.message_log import MessageLog, SentBackLog
from simulation.network import SimulatedChannel
from simulation.pop_hold import PopHold, PopStore
from simulation.popped import ProxiedHeartbeat
from simulation.pull_hold import PullHold
from simulation.rocketmq.broker.client_manage_processor import ClientManageProcessor, HeartbeatData
from simulation.rocketmq.broker.consumer_ids_change_listener import ConsumerIdsChangeListener
from simulation.rocketmq.broker.consumer_manage_processor import ConsumerManageProcessor, Response
from simulation.rocketmq.broker.consumer_offset_manager import ConsumerOffsetManager
from simulation.rocketmq.broker.subscription_group_config import SubscriptionGroupManager
from simulation.rocketmq.client.host import MessageQueueAssignment, OffsetNotFoundError, RefusedError
from simulation.scheduler import MS, SECOND, Clock
from simulation.world import World

CHANNEL_IDLE = 120 * SECOND
"""serverChannelMaxIdleTimeSeconds: a connection without a byte for this long is closed."""
RETRY_DELAYS = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Seconds of the delay levels 3 to 18: what CONSUMER_SEND_MSG_BACK gives the first to the sixteenth retry."""


class RuntimeInfo(NamedTuple):
    """A broker's boot time and its clock, in epoch milliseconds; whole seconds since the boot (StoreStatsService)."""

    boot_time: int
    now: int


class Broker:
    """A simulated master without slaves."""

    def __init__(self, name: str, clock: Clock, world: World) -> None:
        self.name = name
        self.clock = clock
        self.world = world
        self.up = False
        self.boot_time = 0
        self.hook = BrokerHook()
        self.topics: dict[str, int] = {}
        self.logs: dict[MessageQueue, MessageLog] = {}
        self._sent_back: dict[MessageQueue, SentBackLog] = {}
        self.offsets = ConsumerOffsetManager()
        self.groups = SubscriptionGroupManager()
        self.assignments = QueryAssignmentProcessor(name, message_request_modes={})
        self.pop_store = PopStore()
        self.refused_heartbeats: dict[str, int] = {}
        """The groups whose heartbeats an ACL refuses, and since when; true time, epoch milliseconds."""
        self.notify_loss = 0.0
        """The share of its notifications that is lost, 0 to 1."""
        self._boots = 0

    def start(self) -> None:
        """Boot: members and locks start empty; offsets and configurations are kept from the last run."""
        scheduler = self.world.scheduler
        self.up = True
        self._boots += 1
        self.boot_time = self.clock.now()
        self.manager = ConsumerManager()
        self.locks = RebalanceLockManager()
        self._listener = ConsumerIdsChangeListener()
        self._clients = ClientManageProcessor(self.manager, self.groups)
        self._consumers = ConsumerManageProcessor(self.manager, self.groups, self.offsets)
        self.pulls = PullHold(self)
        self.pops = PopHold(self)
        self.channels: dict[str, SimulatedChannel] = {}
        self._members: dict[str, tuple[Response, JavaOrdered]] = {}
        for topic, queues in self.topics.items():
            self.world.name_server.register(topic, self.name, queues)
        scheduler.after(SCAN_PERIOD * MS, partial(self._scan, self._boots))
        self.hook.booted(self)

    def stop(self) -> None:
        """Shut down cleanly, as for an upgrade; the broker must be up."""
        self.up = False
        self.world.name_server.unregister(self.name)
        self.world.truth.unlocks_all(self.world.true_ms, self.name)
        for channel in self.channels.values():
            self.world.network.close_at_broker(channel)
        self.hook.stopped()

    def runtime_info(self, collector: str, asked: int) -> RuntimeInfo:
        """Answer GET_BROKER_RUNTIME_INFO; the request carries the collector's source_id and its time."""
        self.hook.get_broker_runtime_info(collector, asked)
        now = self.clock.now()
        return RuntimeInfo(self.boot_time, now - (now - self.boot_time) % 1_000)

    def add_queues(self, topic: str, queues: int, log: Callable[[int], MessageLog]) -> None:
        """Set a topic's number of queues; remaining queues keep their messages, removed queues get no more."""
        for queue_id in range(self.topics.get(topic, 0), queues):
            self.logs.setdefault(MessageQueue(topic, self.name, queue_id), log(queue_id))
        for queue_id in range(queues, self.topics.get(topic, 0)):
            queue = MessageQueue(topic, self.name, queue_id)
            self.pulls.wake_queue(queue)
            self.logs[queue].stop(self.world.scheduler.now)
        self.topics[topic] = queues
        if self.up:
            self.world.name_server.register(topic, self.name, queues)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with its messages and offsets (deleteTopicInBroker), and its route."""
        for queue_id in range(self.topics.pop(topic, 0)):
            queue = MessageQueue(topic, self.name, queue_id)
            if self.up:
                self.pulls.wake_queue(queue)
            del self.logs[queue]
        self.offsets.clean_offset_by_topic(topic)
        self.world.name_server.register(topic, self.name, 0)

    def accept(self, channel: SimulatedChannel) -> None:
        """Accept a client's connection, or close it if the broker is down."""
        if not self.up:
            self.world.network.close_at_broker(channel)
            return
        self.channels[channel.name] = channel
        channel.last_io = self.world.scheduler.now
        self.world.scheduler.after(CHANNEL_IDLE, partial(self._look_for_idleness, channel))

    def channel_closed(self, channel: SimulatedChannel) -> None:
        """Remove a connection that has ended (ClientHousekeepingService)."""
        channel.open_at_broker = False
        del self.channels[channel.name]
        self._notify(self.manager.do_channel_close_event(channel.name).events)

    def heart_beat(self, channel: SimulatedChannel, heartbeat: HeartbeatData, language: str, version: int) -> None:
        """Answer HEART_BEAT."""
        now = self.clock.now()
        groups = [data.group_name for data in heartbeat.consumer_data_set]
        if not self.refused_heartbeats.keys().isdisjoint(groups):
            self.hook.heart_beat(channel, heartbeat, language, version, SYSTEM_ERROR)
            raise RefusedError(f"[topic, group] resourceName {groups[0]}, denied")
        for data in heartbeat.consumer_data_set:
            known = self.manager.consumer_table.get(data.group_name)
            if known is not None and known.subscription_table.keys() != {s.topic for s in data.subscription_data_set}:
                self.pulls.wake(data.group_name)
        reply = self._clients.heart_beat(channel.name, heartbeat, now, language, version)
        for group in reply.registered:
            self._message_log(f"{RETRY_TOPIC_PREFIX}{group}")
        self._notify(reply.events)
        self.hook.heart_beat(channel, heartbeat, language, version)

    def unregister_client(self, channel: SimulatedChannel, client_id: str, group: str) -> None:
        """Answer UNREGISTER_CLIENT."""
        self._notify(self._clients.unregister_client(channel.name, client_id, group).events)
        self.hook.unregister_client(channel, group, client_id)

    def consumer_ids(self, channel: SimulatedChannel, group: str) -> tuple[str, ...]:
        """Answer GET_CONSUMER_LIST_BY_GROUP."""
        answer = self._members.get(group)
        if answer is None:
            response = self._consumers.get_consumer_list_by_group(group)
            answer = self._members[group] = response, in_java_order(response.consumer_ids)
        response, ids = answer
        self.hook.get_consumer_list_by_group(channel, group, response)
        if response.code != SUCCESS:
            raise RefusedError(response.remark)
        return ids

    def query_assignment(
        self, _: SimulatedChannel, group: str, client_id: str, topic: str, strategy_name: str
    ) -> tuple[MessageQueueAssignment, ...] | None:
        """Answer QUERY_ASSIGNMENT of a member that lets the broker compute its share; no hook reports it."""
        consumers = self.manager.consumer_table.get(group)
        answer = self.assignments.query_assignment(
            QueryAssignment(topic, group, client_id, strategy_name),
            None if (route := self.world.name_server.route(topic)) is None else set(route),
            None if consumers is None else consumers.client_ids(),
        )
        if answer is None:
            return None
        given = (MessageQueueAssignment(one.message_queue, one.mode) for one in answer)
        return tuple(sorted(given, key=_assigned_order))

    def proxy_heart_beat(self, channel: SimulatedChannel, heartbeat: ProxiedHeartbeat) -> None:
        """Answer a proxy's SEND_MESSAGE_V2 with a copy of its client's heartbeat."""
        self.hook.proxy_heart_beat(channel, heartbeat)

    def lock_batch_mq(
        self, channel: SimulatedChannel, group: str, client_id: str, queues: Collection[MessageQueue]
    ) -> frozenset[MessageQueue]:
        """Answer LOCK_BATCH_MQ."""
        granted = self.locks.try_lock_batch(group, queues, client_id, self.clock.now())
        for queue in granted:
            self.world.truth.locks(self.world.true_ms, group, client_id, queue)
        self.hook.lock_batch_mq(channel, group, client_id, queues, granted)
        return frozenset(granted)

    def unlock_batch_mq(
        self, channel: SimulatedChannel, group: str, client_id: str, queues: Collection[MessageQueue]
    ) -> None:
        """Answer UNLOCK_BATCH_MQ."""
        self.locks.unlock_batch(group, queues, client_id)
        for queue in queues:
            if queue not in self.locks.mq_lock_table.get(group, ()):
                self.world.truth.unlocks(self.world.true_ms, group, queue)
        self.hook.unlock_batch_mq(channel, group, client_id, queues)

    def query_consumer_offset(self, channel: SimulatedChannel, group: str, queue: MessageQueue) -> int:
        """Answer QUERY_CONSUMER_OFFSET; all messages of a queue are still stored, and in memory."""
        self.pulls.catch_up_with(group, queue)
        response = self._consumers.query_consumer_offset(group, queue, min_offset=0, zero_in_memory=True)
        self.hook.query_consumer_offset(channel, group, queue, response.code)
        if response.offset is None:
            raise (OffsetNotFoundError if response.code == QUERY_NOT_FOUND else RefusedError)(response.remark)
        return response.offset

    def update_consumer_offsets(
        self, channel: SimulatedChannel, group: str, offsets: Iterable[tuple[MessageQueue, int]]
    ) -> None:
        """Answer UPDATE_CONSUMER_OFFSET for each queue; skip unchanged offsets if the hook does not report them."""
        for queue, offset in offsets:
            self.pulls.catch_up_with(group, queue)
            stored = self.offsets.query_offset(group, queue.topic, queue.queue_id)
            if stored == offset and not self.hook.wants_pulls:
                continue
            exists = queue.topic in self.topics
            response = self._consumers.update_consumer_offset(group, queue, offset, topic_exists=exists)
            self.hook.update_consumer_offset(channel, group, queue, offset, response.code)

    def max_offset(self, _: SimulatedChannel, queue: MessageQueue) -> int:
        """Answer GET_MAX_OFFSET."""
        return self._log(queue).max_offset(self.world.scheduler.now)

    def search_offset(self, _: SimulatedChannel, queue: MessageQueue, timestamp: int) -> int:
        """Answer SEARCH_OFFSET_BY_TIMESTAMP: the first message stored at or after the time (broker's clock, ms)."""
        return self._log(queue).max_offset(self.clock.true_time(timestamp) - 1)

    def send_message_back(
        self, _: SimulatedChannel, group: str, reconsume_times: int, delay_level: int, max_reconsume_times: int
    ) -> None:
        """Answer CONSUMER_SEND_MSG_BACK: deliver again by the retry topic, or move to the dead-letter topic."""
        if delay_level < 0 or reconsume_times >= max_reconsume_times:
            self._message_log(f"{DEAD_LETTER_TOPIC_PREFIX}{group}").append(self.world.scheduler.now)
            return
        level = delay_level - 3 if delay_level > 0 else reconsume_times
        due = self.world.scheduler.now + RETRY_DELAYS[min(max(level, 0), len(RETRY_DELAYS) - 1)] * SECOND
        retry = f"{RETRY_TOPIC_PREFIX}{group}"
        self._message_log(retry).append(due)
        self.world.scheduler.at(due, lambda: self.pulls.arrived(MessageQueue(retry, self.name, 0)))

    def _message_log(self, topic: str) -> SentBackLog:
        """Return the messages of a group's retry or dead-letter topic, which has one queue; create it if missing."""
        queue = MessageQueue(topic, self.name, 0)
        log = self._sent_back.get(queue)
        if log is None:
            log = self._sent_back[queue] = SentBackLog()
            self.add_queues(topic, 1, lambda _: log)
        return log

    def _log(self, queue: MessageQueue) -> MessageLog:
        log = self.logs.get(queue)
        if log is None:
            raise RefusedError(f"there is no queue {queue}")
        return log

    def _scan(self, boot: int) -> None:
        if boot != self._boots or not self.up:
            return
        outcome = self.manager.scan_not_active_channel(self.clock.now())
        self._notify(outcome.events)
        for name in outcome.closing:
            channel = self.channels[name]
            self.world.network.close_at_broker(channel)
            self.channel_closed(channel)
        self.world.scheduler.after(SCAN_PERIOD * MS, partial(self._scan, boot))

    def _look_for_idleness(self, channel: SimulatedChannel) -> None:
        if channel.name not in self.channels or not channel.open_at_broker:
            return
        due = channel.last_io + CHANNEL_IDLE
        if due > self.world.scheduler.now:
            self.world.scheduler.at(due, partial(self._look_for_idleness, channel))
        else:
            self.world.network.close_at_broker(channel)
            self.channel_closed(channel)

    def _notify(self, events: Iterable[AnyConsumerGroupEvent]) -> None:
        """Notify the members of changed groups, except where the notification is lost."""
        for event in events:
            if not isinstance(event, Register):
                self._members.pop(event.group, None)
        for notification in self._listener.handle(events):
            channel = self.channels.get(notification.channel)
            if channel is not None and not (self.notify_loss and self.world.random.chance(self.notify_loss)):
                self.world.network.down(channel, channel.client.notified)


def _assigned_order(assignment: MessageQueueAssignment) -> tuple[bytes, bytes, int]:
    queue = assignment.message_queue
    return (b"", b"", 0) if queue is None else queue_order(queue)
