"""Pulls, and those that wait at the broker for a message (PullMessageProcessor, PullRequestHoldService)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rebalance_model.client.host import BrokerError, RefusedError
from rebalance_model.client.process_queue import Message
from rebalance_model.client.pull_flow_control import Pull, PullResult
from rebalance_model.entities import MessageQueue
from rebalance_model.simulation.message_log import MessageLog
from rebalance_model.simulation.network import Channel
from rebalance_model.simulation.quiet_queue import QuietQueue
from rebalance_model.simulation.scheduler import SECOND

if TYPE_CHECKING:
    from rebalance_model.simulation.broker import Broker

PULL_BATCH_SIZE = 32
BODY_SIZE = 128
"""Bytes of every message."""
SUSPEND = 15 * SECOND
"""brokerSuspendMaxTimeMillis: how long a client lets its pull wait."""
HOLD_CHECK = 5 * SECOND
"""How often the broker looks for pulls that have waited so long: so they wait for up to 20 s."""
SUBSCRIPTION_NOT_EXIST = 24
SUBSCRIPTION_NOT_LATEST = 25

Reply = Callable[[PullResult | BrokerError], None]


@dataclass(slots=True, eq=False)
class Held:
    """A pull that waits."""

    channel: Channel
    group: str
    queue: MessageQueue
    offset: int
    reply: Reply
    since: int
    """When it began to wait; microseconds of true time."""
    ended: bool = False


class PullHold:
    """Answers the pulls of one run of a broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._scheduler = broker.world.scheduler
        self._booted = self._scheduler.now
        self._unforeseen: dict[MessageQueue, list[Held]] = {}
        self.resting: dict[tuple[str, MessageQueue], QuietQueue] = {}

    def pull(self, channel: Channel, group: str, quiet: QuietQueue, pull: Pull, reply: Reply) -> None:
        """PULL_MESSAGE: answered at once if there is something to say, else when a message comes or the time is up."""
        broker, queue = self._broker, quiet.queue
        refusal = self._refusal(group, queue, pull)
        broker.hook.pull_message(channel, group, queue, pull, None if refusal is None else refusal[0])
        if refusal is not None:
            reply(RefusedError(refusal[1]))
            return
        if pull.commit_offset is not None:
            broker.offsets.commit_offset(group, queue.topic, queue.queue_id, pull.commit_offset)
        newest = broker.logs[queue].max_offset(self._scheduler.now)
        if pull.offset == newest:
            held = Held(channel, group, queue, pull.offset, reply, self.now)
            if not quiet.rest(self, held):
                self.simulate(held)
        else:
            reply(self.answer(group, queue, pull.offset))

    def answer(self, group: str, queue: MessageQueue, offset: int) -> PullResult:
        """What the broker has from an offset on."""
        newest = self._broker.logs[queue].max_offset(self._scheduler.now)
        end = min(newest, offset + PULL_BATCH_SIZE)
        self._broker.offsets.commit_pull_offset(group, queue.topic, queue.queue_id, end)
        if offset > newest:
            return PullResult("OFFSET_ILLEGAL", newest)
        if offset == newest:
            return PullResult("NO_NEW_MSG", newest)
        messages = [Message(each, BODY_SIZE, max_offset=newest) for each in range(offset, end)]
        return PullResult("FOUND", end, messages)

    def time_up(self, since: int) -> int:
        """When a pull that waits since then is answered without a message."""
        checks = -(-(since + SUSPEND - self._booted) // HOLD_CHECK)
        return self._booted + checks * HOLD_CHECK

    def arrived(self, queue: MessageQueue) -> None:
        """A message that could not be foreseen has come."""
        self.wake_queue(queue)
        for held in self._unforeseen.pop(queue, ()):
            self._end(held)

    def simulate(self, held: Held) -> None:
        """Let a pull wait."""
        due = self.time_up(held.since)
        arrival = self.log(held.queue).arrival(held.offset)
        if arrival is not None:
            due = min(due, arrival)
        else:
            waiting = self._unforeseen.get(held.queue, ())
            self._unforeseen[held.queue] = [*(one for one in waiting if not one.ended), held]
        self._scheduler.put(max(due, self.now), held.since, partial(self._end, held))

    # What a queue at rest needs

    @property
    def now(self) -> int:
        """True time; microseconds."""
        return self._scheduler.now

    def log(self, queue: MessageQueue) -> MessageLog:
        """A queue's messages."""
        return self._broker.logs[queue]

    def may_rest(self, held: Held, queue: MessageQueue) -> bool:
        """Whether nobody wants to hear of each pull, and no other member pulls the same queue at rest."""
        other = self.resting.get((held.group, queue))
        if other is not None:
            other.wake()
        return other is None and not self._broker.hook.wants_pulls and held.channel.open_at_broker

    def play(self, held: Held, since: int) -> None:
        """Make up for a round that has begun."""
        self._scheduler.alone(since, held.since, partial(self._end, held))

    def note(self, held: Held) -> None:
        """A pull was answered; the next one begins where this one now does."""
        queue = held.queue
        self._broker.offsets.commit_pull_offset(held.group, queue.topic, queue.queue_id, held.offset)

    def commit(self, held: Held, offset: int) -> None:
        """A commit has arrived."""
        self._broker.offsets.commit_offset(held.group, held.queue.topic, held.queue.queue_id, offset)

    def commit_later(self, sent: int, held: Held, offset: int) -> None:
        """A commit that is on its way will arrive, if its connection is still there then."""

        def arrive() -> None:
            if held.channel.open_at_broker:
                self.commit(held, offset)

        self._scheduler.put(sent + held.channel.latency, sent, arrive)

    def catch_up(self, group: str) -> None:
        """Somebody looks at a group's offsets."""
        for quiet in [quiet for (of_group, _), quiet in self.resting.items() if of_group == group]:
            quiet.catch_up()

    def wake_queue(self, queue: MessageQueue) -> None:
        """Its messages will not be what they were going to be."""
        for quiet in [quiet for (_, one), quiet in self.resting.items() if one == queue]:
            quiet.wake()

    def catch_up_with(self, group: str, queue: MessageQueue) -> None:
        """Somebody looks at one queue's offset, or changes it."""
        quiet = self.resting.get((group, queue))
        if quiet is not None:
            quiet.catch_up()

    def wake(self, group: str) -> None:
        """Something happens to a group that may matter to its pulls."""
        for quiet in [quiet for (of_group, _), quiet in self.resting.items() if of_group == group]:
            quiet.wake()

    def _end(self, held: Held) -> None:
        if held.ended or self._broker.pulls is not self:  # the broker has restarted since
            return
        if held.offset == self.log(held.queue).max_offset(self.now) and self.now < self.time_up(held.since):
            self.simulate(held)  # the message that was to come won't: the queue is no longer written to
            return
        held.ended = True
        held.reply(self.answer(held.group, held.queue, held.offset))

    def _refusal(self, group: str, queue: MessageQueue, pull: Pull) -> tuple[int, str] | None:
        """Code and remark, where the group's subscription is not the client's."""
        known = self._broker.manager.find_subscription_data(group, queue.topic)
        if known is None:
            return SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist"
        if known.sub_version < pull.sub_version:
            return SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
        return None
