"""Pull requests, and how a broker holds them until a message arrives (PullMessageProcessor, PullRequestHoldService)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from rebalance_model.broker.consumer_manager import ConsumerManager
from rebalance_model.entities import MessageQueue
from simulation.hook import BrokerHook, HookedBroker
from simulation.message_log import MessageLog, SteadyLog
from simulation.network import SimulatedChannel
from simulation.rocketmq.broker.consumer_offset_manager import ConsumerOffsetManager
from simulation.rocketmq.broker.subscription_group_config import SubscriptionGroupManager
from simulation.rocketmq.client.cached_messages import Message
from simulation.rocketmq.client.host import BrokerError, RefusedError
from simulation.rocketmq.client.pull_flow_control import Pull, PullResult
from simulation.scheduler import MS, SECOND

BODY_SIZE = 128
"""Bytes of every message."""
HOLD_CHECK = 5 * SECOND
"""The interval at which the broker looks for pulls that have waited as long as they may: so they wait for up to 5 s
more."""
NO_PERMISSION = 16
TOPIC_NOT_EXIST = 17
OFFSET_MOVED = 21
SUBSCRIPTION_NOT_EXIST = 24
SUBSCRIPTION_NOT_LATEST = 25
GROUP_NOT_EXIST = 26
_EMPTY = SteadyLog(0, None)
"""The log of a queue whose topic was deleted."""

Reply = Callable[[PullResult | BrokerError], None]


@dataclass(slots=True, eq=False)
class HeldPull:
    """A pull request that waits at the broker."""

    channel: SimulatedChannel
    group: str
    queue: MessageQueue
    offset: int
    reply: Reply
    since: int
    """When it began to wait; microseconds of true time."""
    max_messages: int
    suspend: int
    """The longest time that it may wait; microseconds."""
    ended: bool = False


class RestingQueue(Protocol):
    """A queue whose pulls may be computed instead of simulated (`quiet_queue`)."""

    queue: MessageQueue

    def rest(self, pulls: "PullHold", pull: HeldPull) -> bool:
        """Begin to rest with a pull that waits; return False if the pull must be simulated."""

    def catch_up(self) -> None:
        """Bring the queue's objects to the present."""

    def wake(self) -> None:
        """Simulate the queue from now on."""


class PulledBroker(HookedBroker, Protocol):
    """The parts of a broker that its pulls read, and the offsets that they commit."""

    hook: BrokerHook
    topics: dict[str, int]
    groups: SubscriptionGroupManager
    manager: ConsumerManager
    offsets: ConsumerOffsetManager
    pulls: "PullHold"


class PullHold:
    """Answers the pull requests of one run of a broker."""

    def __init__(self, broker: PulledBroker) -> None:
        self._broker = broker
        self._scheduler = broker.world.scheduler
        self._booted = self._scheduler.now
        self._unforeseen: dict[MessageQueue, list[HeldPull]] = {}
        self.resting: dict[tuple[str, MessageQueue], RestingQueue] = {}

    def pull(self, channel: SimulatedChannel, group: str, quiet: RestingQueue, pull: Pull, reply: Reply) -> None:
        """Answer PULL_MESSAGE: at once if possible, else when a message arrives or the wait times out."""
        broker, queue = self._broker, quiet.queue
        refusal = self._refusal(group, queue, pull)
        newest = self.log(queue).max_offset(self._scheduler.now)
        code = refusal[0] if refusal is not None else OFFSET_MOVED if pull.offset > newest else None
        broker.hook.pull_message(channel, group, queue, pull, code)
        if refusal is not None:
            reply(RefusedError(refusal[1]))
            return
        if pull.commit_offset is not None:
            broker.offsets.commit_offset(group, queue.topic, queue.queue_id, pull.commit_offset)
        if pull.offset == newest:
            held = HeldPull(channel, group, queue, pull.offset, reply, self.now, pull.max_messages, pull.suspend * MS)
            if not quiet.rest(self, held):
                self.simulate(held)
        else:
            reply(self.answer(group, queue, pull.offset, pull.max_messages))

    def answer(self, group: str, queue: MessageQueue, offset: int, max_messages: int) -> PullResult:
        """Return the messages from an offset on, so many at most."""
        newest = self.log(queue).max_offset(self._scheduler.now)
        end = min(newest, offset + max_messages)
        self._broker.offsets.commit_pull_offset(group, queue.topic, queue.queue_id, end)
        if offset > newest:
            return PullResult("OFFSET_ILLEGAL", newest)
        if offset == newest:
            return PullResult("NO_NEW_MSG", newest)
        messages = [Message(each, BODY_SIZE, max_offset=newest) for each in range(offset, end)]
        return PullResult("FOUND", end, messages)

    def time_up(self, pull: HeldPull) -> int:
        """Return when a pull that waits is answered without a message; microseconds."""
        checks = -(-(pull.since + pull.suspend - self._booted) // HOLD_CHECK)
        return self._booted + checks * HOLD_CHECK

    def arrived(self, queue: MessageQueue) -> None:
        """Answer the pulls that wait for a message that was not predictable."""
        self.wake_queue(queue)
        for held in self._unforeseen.pop(queue, ()):
            self._end(held)

    def simulate(self, pull: HeldPull) -> None:
        """Hold a pull until a message arrives or the wait times out."""
        due = self.time_up(pull)
        arrival = self.log(pull.queue).arrival(pull.offset)
        if arrival is not None:
            due = min(due, arrival)
        else:
            waiting = self._unforeseen.get(pull.queue, ())
            self._unforeseen[pull.queue] = [*(one for one in waiting if not one.ended), pull]
        self._scheduler.put(max(due, self.now), pull.since, partial(self._end, pull))

    # Methods for queues at rest

    @property
    def now(self) -> int:
        """True time; microseconds."""
        return self._scheduler.now

    def log(self, queue: MessageQueue) -> MessageLog:
        """Return a queue's messages."""
        return self._broker.logs.get(queue, _EMPTY)

    def may_rest(self, pull: HeldPull, queue: MessageQueue) -> bool:
        """Return whether no hook reports each pull, and no other member pulls the same queue at rest."""
        other = self.resting.get((pull.group, queue))
        if other is not None:
            other.wake()
        return other is None and not self._broker.hook.wants_pulls and pull.channel.open_at_broker

    def play(self, pull: HeldPull, since: int) -> None:
        """Simulate, in the past, a round that has begun."""
        self._scheduler.alone(since, pull.since, partial(self._end, pull))

    def note(self, pull: HeldPull) -> None:
        """Record an answered pull: the next one begins at its offset."""
        queue = pull.queue
        self._broker.offsets.commit_pull_offset(pull.group, queue.topic, queue.queue_id, pull.offset)

    def commit(self, pull: HeldPull, offset: int) -> None:
        """Store a commit that has arrived."""
        self._broker.offsets.commit_offset(pull.group, pull.queue.topic, pull.queue.queue_id, offset)

    def commit_later(self, sent: int, pull: HeldPull, offset: int) -> None:
        """Store a commit when it arrives, if its connection is still open then."""

        def arrive() -> None:
            if pull.channel.open_at_broker:
                self.commit(pull, offset)

        self._scheduler.put(sent + pull.channel.latency, sent, arrive)

    def catch_up(self, group: str) -> None:
        """Bring a group's queues at rest to the present, before their offsets are read."""
        for quiet in [quiet for (of_group, _), quiet in self.resting.items() if of_group == group]:
            quiet.catch_up()

    def wake_queue(self, queue: MessageQueue) -> None:
        """Simulate a queue from now on, because its future messages change."""
        for quiet in [quiet for (_, one), quiet in self.resting.items() if one == queue]:
            quiet.wake()

    def catch_up_with(self, group: str, queue: MessageQueue) -> None:
        """Bring one queue at rest to the present, before its offset is read or changed."""
        quiet = self.resting.get((group, queue))
        if quiet is not None:
            quiet.catch_up()

    def wake(self, group: str) -> None:
        """Simulate a group's queues from now on, before an event that may concern their pulls."""
        for quiet in [quiet for (of_group, _), quiet in self.resting.items() if of_group == group]:
            quiet.wake()

    def _end(self, pull: HeldPull) -> None:
        if pull.ended or self._broker.pulls is not self:  # the broker has restarted since
            return
        if pull.offset >= self.log(pull.queue).max_offset(self.now) and self.now < self.time_up(pull):
            self.simulate(pull)  # the expected message will not come: the queue is no longer written to, or a new one
            return
        pull.ended = True
        if pull.queue.topic not in self._broker.topics:
            pull.reply(RefusedError(f"topic {pull.queue.topic} not exist"))
            return
        pull.reply(self.answer(pull.group, pull.queue, pull.offset, pull.max_messages))

    def _refusal(self, group: str, queue: MessageQueue, pull: Pull) -> tuple[int, str] | None:
        """Return code and remark if the group may not consume, or the broker's subscription is missing or too old."""
        config = self._broker.groups.find_subscription_group_config(group)
        if config is None:
            return GROUP_NOT_EXIST, f"subscription group [{group}] does not exist"
        if not config.consume_enable:
            return NO_PERMISSION, f"subscription group no permission, {group}"
        if queue.topic not in self._broker.topics:
            return TOPIC_NOT_EXIST, f"topic[{queue.topic}] not exist, apply first please!"
        subscription = self._broker.manager.find_subscription_data(group, queue.topic)
        if subscription is None:
            return SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist"
        if subscription.sub_version < pull.sub_version:
            return SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
        return None
