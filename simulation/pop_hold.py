"""POP requests at a broker: handing messages out, and taking back those that nobody acknowledges.

PopMessageProcessor, PopLongPollingService, AckMessageProcessor, ChangeInvisibleTimeProcessor and PopReviveService, with
the files as store. What was handed out outlives the broker's process, as check points are messages (`PopStore`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from rebalance_model.entities import MessageQueue
from simulation.hook import BrokerHook, HookedBroker
from simulation.message_log import SentBackLog
from simulation.network import SimulatedChannel
from simulation.popped import Delivered, End, Handle, OrderInfo, Origin, Pop, PoppedMessage, retry_topic
from simulation.rocketmq.broker.consumer_offset_manager import ConsumerOffsetManager
from simulation.rocketmq.broker.subscription_group_config import SubscriptionGroupManager
from simulation.rocketmq.client.host import BrokerError, RefusedError
from simulation.scheduler import MS

NO_PERMISSION = 16
TOPIC_NOT_EXIST = 17
GROUP_NOT_EXIST = 26
POLLING_TIMEOUT = 210
TOO_OLD = 500
"""A POP that was to be answered this long ago is refused (isTimeoutTooMuch); milliseconds."""
REVIVE_AFTER = (2_000, 4_800)
"""The time from the end of its invisible time until a message is in the retry topic, as seen with files as store;
milliseconds."""
RETRY_FIRST = 5
"""One in so many POPs reads the retry topic first (popFromRetryProbability, 20 %)."""

Reply = Callable[[list[PoppedMessage] | BrokerError], None]
GroupQueue = tuple[str, MessageQueue]


@dataclass(slots=True, eq=False)
class CheckPoint:
    """One message that was handed out, and is not acknowledged."""

    message: PoppedMessage
    group: str
    channel: str


@dataclass
class PopStore:
    """The popped messages that a broker keeps when its process ends."""

    check_points: dict[tuple[str, MessageQueue, int], CheckPoint] = field(default_factory=dict)
    orders: dict[GroupQueue, OrderInfo] = field(default_factory=dict)
    revived: dict[MessageQueue, list[PoppedMessage]] = field(default_factory=dict)
    """By queue of a retry topic: which message has which offset."""
    logs: dict[MessageQueue, SentBackLog] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class WaitingPop:
    """A POP that waits for a message."""

    channel: SimulatedChannel
    pop: Pop
    reply: Reply
    until: int
    """When it is answered without one; microseconds of true time."""
    ended: bool = False


class PoppedBroker(HookedBroker, Protocol):
    """The parts of a broker that its POPs read, and the offsets that they commit."""

    hook: BrokerHook
    topics: dict[str, int]
    groups: SubscriptionGroupManager
    offsets: ConsumerOffsetManager
    pop_store: PopStore
    pops: "PopHold"

    def add_queues(self, topic: str, queues: int, log: Callable[[int], SentBackLog]) -> None:
        """Set a topic's number of queues."""


class PopHold:
    """Answers the POP requests of one run of a broker."""

    def __init__(self, broker: PoppedBroker) -> None:
        self._broker = broker
        self._world = broker.world
        self._store = broker.pop_store
        self._waiting: dict[tuple[str, str], list[WaitingPop]] = {}
        for check_point in self._store.check_points.values():
            self._revive_later(check_point)

    def pop(self, channel: SimulatedChannel, pop: Pop, reply: Reply) -> None:
        """Answer POP_MESSAGE: at once if there is a message, else when one comes or its poll time is over."""
        broker, now = self._broker, self._broker.clock.now()
        refusal = self._refusal(pop, now)
        broker.hook.pop_message(channel, pop, refusal)
        if refusal is not None:
            reply(RefusedError(f"POP of {pop.topic} by {pop.group} refused with code {refusal}"))
            return
        messages = self._hand_out(channel, pop)
        if messages:
            reply(messages)
            return
        until = broker.clock.true_time(pop.born + pop.poll_ms)
        waiting = WaitingPop(channel, pop, reply, until)
        key = pop.group, pop.topic
        self._waiting[key] = [*(one for one in self._waiting.get(key, ()) if not one.ended), waiting]
        self._wait(waiting)

    def ack(self, channel: SimulatedChannel, group: str, handle: Handle) -> None:
        """Answer ACK_MESSAGE: with SUCCESS, also where it has no effect."""
        self._broker.hook.ack_message(channel, group, handle)
        mq = handle.queue
        if not handle.order:
            check_point = self._store.check_points.get((group, mq, handle.offset))
            if check_point is not None and check_point.message.handle.pop_time == handle.pop_time:
                self._end(group, mq, handle.offset, "ACKED")
            return
        info = self._store.orders.get((group, mq))
        commit = info.acknowledge(handle.offset, handle.pop_time) if info is not None else None
        if commit is None:
            return
        self._end(group, mq, handle.offset, "ACKED")
        if commit > self._broker.offsets.query_offset(group, mq.topic, mq.queue_id):
            self._commit(group, mq, commit)
        self.arrived(group, mq.topic)

    def change_invisible_time(self, channel: SimulatedChannel, group: str, handle: Handle, invisible_ms: int) -> Handle:
        """Answer CHANGE_MESSAGE_INVISIBLETIME; return the handle of the changed message."""
        broker, now, mq = self._broker, self._broker.clock.now(), handle.queue
        broker.hook.change_message_invisibletime(channel, group, handle, invisible_ms)
        if handle.order:
            info = self._store.orders.get((group, mq))
            if info is not None and info.change(handle.offset, handle.pop_time, now + invisible_ms):
                self._world.scheduler.after(invisible_ms * MS, partial(self.arrived, group, mq.topic))
            return handle._replace(invisible_ms=now + invisible_ms - handle.pop_time)
        changed = handle._replace(pop_time=now, invisible_ms=invisible_ms)
        check_point = self._store.check_points.get((group, mq, handle.offset))
        if check_point is not None and check_point.message.handle.pop_time == handle.pop_time:
            check_point.message = check_point.message._replace(handle=changed)
            self._revive_later(check_point)
        return changed

    def arrived(self, group: str, topic: str) -> None:
        """Answer POPs that wait for a message that was not predictable, as far as there are messages."""
        for waiting in list(self._waiting.get((group, topic), ())):
            self._try(waiting)

    def is_fifo(self, group: str) -> bool:
        """Return whether clients of the group get the messages of a queue in order."""
        config = self._broker.groups.subscription_group_table.get(group)
        return config is not None and config.consume_message_orderly

    def _refusal(self, pop: Pop, now: int) -> int | None:
        if now - pop.born - pop.poll_ms > TOO_OLD:
            return POLLING_TIMEOUT
        config = self._broker.groups.find_subscription_group_config(pop.group)
        if pop.topic not in self._broker.topics:
            return TOPIC_NOT_EXIST
        if config is None:
            return GROUP_NOT_EXIST
        return None if config.consume_enable else NO_PERMISSION

    def _wait(self, waiting: WaitingPop) -> None:
        """Look again when the next message comes that is predictable, or the queue is blocked no longer."""
        due = waiting.until
        for mq in self._queues(waiting.pop):
            arrival = self._broker.logs[mq].arrival(self._next_offset(waiting.pop.group, mq))
            if arrival is not None:
                due = min(due, max(arrival, self._blocked_until(waiting.pop, mq)))
        self._world.scheduler.at(max(due, self._world.scheduler.now), partial(self._try, waiting))

    def _try(self, waiting: WaitingPop) -> None:
        if waiting.ended or self._broker.pops is not self:
            return
        now = self._world.scheduler.now
        if not waiting.channel.open_at_broker:
            waiting.ended = True
            return
        messages = self._hand_out(waiting.channel, waiting.pop)
        if not messages and now < waiting.until:
            self._wait(waiting)
            return
        waiting.ended = True
        waiting.reply(messages)

    def _hand_out(self, channel: SimulatedChannel, pop: Pop) -> list[PoppedMessage]:
        """Hand out messages of the topic, and of its retry topic."""
        topic = self._queues(pop)
        if len(topic) > 1:
            turn = self._world.random.between(0, len(topic) - 1)
            topic = topic[turn:] + topic[:turn]
        retry = MessageQueue(retry_topic(pop.group, pop.topic), self._broker.name, 0)
        places = topic
        if not pop.order and retry in self._broker.logs:
            places = [retry, *topic] if self._world.random.between(1, RETRY_FIRST) == 1 else [*topic, retry]
        popped: list[PoppedMessage] = []
        for mq in places:
            if len(popped) < pop.max_messages:
                popped += self._take_from(channel, pop, mq, pop.max_messages - len(popped))
        return popped

    def _take_from(self, channel: SimulatedChannel, pop: Pop, mq: MessageQueue, limit: int) -> list[PoppedMessage]:
        first, now = self._next_offset(pop.group, mq), self._broker.clock.now()
        end = min(first + limit, self._broker.logs[mq].max_offset(self._world.scheduler.now))
        if first >= end or self._blocked_until(pop, mq) > self._world.scheduler.now:
            return []
        messages = [self._message(pop, mq, offset, now) for offset in range(first, end)]
        if pop.order:
            visible_at = dict.fromkeys(range(first, end), now + pop.invisible_ms)
            self._store.orders[pop.group, mq] = OrderInfo(now, visible_at, end)
            self._commit(pop.group, mq, first)
        else:
            self._commit(pop.group, mq, end)
        deliveries, true_ms = self._world.deliveries, self._world.true_ms
        for message in messages:
            deliveries.end(
                true_ms, pop.group, mq, message.handle.offset, "RETURNED"
            )  # in order, it is handed out again
            deliveries.begin(
                Delivered(
                    begin=true_ms,
                    group=pop.group,
                    channel=channel.name,
                    queue=mq,
                    offset=message.handle.offset,
                    reconsume_times=message.reconsume_times,
                )
            )
            if not pop.order:
                check_point = CheckPoint(message, pop.group, channel.name)
                self._store.check_points[pop.group, mq, message.handle.offset] = check_point
                self._revive_later(check_point)
        return messages

    def _message(self, pop: Pop, mq: MessageQueue, offset: int, now: int) -> PoppedMessage:
        handle = Handle(mq, offset, now, pop.invisible_ms, pop.order)
        if mq in self._store.revived:
            return self._store.revived[mq][offset]._replace(handle=handle)
        return PoppedMessage(handle, Origin(mq, offset), 0)

    def _queues(self, pop: Pop) -> list[MessageQueue]:
        count = self._broker.topics.get(pop.topic, 0)
        return [
            MessageQueue(pop.topic, self._broker.name, number)
            for number in range(count)
            if pop.queue_id in (-1, number)
        ]

    def _next_offset(self, group: str, mq: MessageQueue) -> int:
        return max(self._broker.offsets.query_offset(group, mq.topic, mq.queue_id), 0)

    def _blocked_until(self, pop: Pop, mq: MessageQueue) -> int:
        """Return until when a queue in order is blocked; microseconds of true time, 0: it is not."""
        info = self._store.orders.get((pop.group, mq)) if pop.order else None
        until = info.blocked_until() if info is not None else 0
        return self._broker.clock.true_time(until) if until else 0

    def _commit(self, group: str, mq: MessageQueue, offset: int) -> None:
        self._broker.offsets.commit_offset(group, mq.topic, mq.queue_id, offset)
        self._broker.offsets.commit_pull_offset(group, mq.topic, mq.queue_id, offset)

    def _end(self, group: str, mq: MessageQueue, offset: int, how: End) -> None:
        self._store.check_points.pop((group, mq, offset), None)
        self._world.deliveries.end(self._world.true_ms, group, mq, offset, how)

    def _revive_later(self, check_point: CheckPoint) -> None:
        handle = check_point.message.handle
        due = self._broker.clock.true_time(handle.pop_time + handle.invisible_ms)
        due += self._world.random.between(*REVIVE_AFTER) * MS
        self._world.scheduler.at(max(due, self._world.scheduler.now), partial(self._revive, check_point, handle))

    def _revive(self, check_point: CheckPoint, handle: Handle) -> None:
        """Copy a message to the retry topic, unless it was acknowledged or changed meanwhile."""
        key = check_point.group, handle.queue, handle.offset
        is_current = self._store.check_points.get(key) is check_point and check_point.message.handle == handle
        if self._broker.pops is not self or not self._broker.up or not is_current:
            return
        self._end(*key, "RETURNED")
        topic = retry_topic(check_point.group, handle.queue.topic)
        mq, log = self._retry_log(topic)
        log.append(self._world.scheduler.now)
        times = check_point.message.reconsume_times + 1
        self._store.revived[mq].append(check_point.message._replace(reconsume_times=times))
        self.arrived(check_point.group, check_point.message.origin.queue.topic)

    def _retry_log(self, topic: str) -> tuple[MessageQueue, SentBackLog]:
        """Return the messages of a retry topic, which has one queue; create it if missing."""
        mq = MessageQueue(topic, self._broker.name, 0)
        log = self._store.logs.get(mq)
        if log is None:
            log = self._store.logs[mq] = SentBackLog()
            self._store.revived[mq] = []
            self._broker.add_queues(topic, 1, lambda _: log)
        return mq, log
