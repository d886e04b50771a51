"""The poll collector in virtual time, with the requests, order and stamps of `streaming.collect.poll`."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypedDict, TypeVar

from rebalance_model.entities import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX
from rebalance_model.observe.events import (
    SYSTEM_ERROR,
    UNREACHABLE,
    BrokerStatus,
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeTimeSpan,
    RpcError,
    Tick,
    TopicRoute,
    TopicStats,
)
from simulation import broker_responses, client_responses
from simulation.broker import Broker
from simulation.client_responses import ClientAnswer
from simulation.emitter import GroupStamp, SimulatedEmitter, Sink
from simulation.network import SimulatedChannel
from simulation.process import Process, Promise
from simulation.scheduler import MS, SECOND, Clock
from simulation.world import World

T = TypeVar("T")

INTERVAL = 10 * SECOND
DEAD_LETTERS_EVERY = 6
"""A broker is asked for a group's dead letters once in this many rounds (collector.dead_letters_interval_ms)."""
LATENCY = MS
"""The latency between the collector and a server, one way; microseconds."""
CLIENT_TIMEOUT = 10 * SECOND
"""The time that a broker waits for the answer of a client; microseconds."""
FORGOTTEN_AFTER = 60 * SECOND
"""The time that a broker is still asked about a group that it no longer lists (GROUP_FORGOTTEN_MS); microseconds."""
CONSUME_MSG_TIMEOUT = 207
PARALLELISM = 16
"""The maximum of concurrent client requests; a quarter of it for clients that did not answer last time."""


class FairSemaphore:
    """A semaphore that admits waiting tasks in the order in which they came."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._waiting: deque[Promise[None]] = deque()

    def enter(self) -> Promise[None]:
        """Wait for a free place."""
        promise: Promise[None] = Promise()
        self._waiting.append(promise)
        self._admit()
        return promise

    def leave(self) -> None:
        """Free a place for the next task."""
        self._places += 1
        self._admit()

    def _admit(self) -> None:
        while self._places and self._waiting:
            self._places -= 1
            self._waiting.popleft().resolve(None)


class PollCollector:
    """One run of the collector: queries every broker and every member every 10 s, and ticks every second."""

    def __init__(
        self, world: World, clock: Clock, brokers: Collection[Broker], groups: Collection[str], sink: Sink
    ) -> None:
        self._world = world
        self._brokers = brokers
        self._groups = groups
        self._clock = clock
        self._process = Process(world.scheduler)
        self._emitter = SimulatedEmitter("poll-1", self._clock, sink)
        self._gate = FairSemaphore(PARALLELISM)
        self._narrow_gate = FairSemaphore(PARALLELISM // 4)
        self._silent: set[str] = set()
        self._known: dict[tuple[str, str], int] = {}
        """By broker and group, when the broker last listed it, or had members of it; microseconds."""
        self._routed: set[tuple[str, str]] = set()
        """The topics whose routes have been sent, each with the group."""
        self._under_way: set[tuple[str, str]] = set()
        self._pending: deque[tuple[int, str, str, Promise[ClientAnswer]]] = deque()
        """The pending client requests, each with the time (microseconds) until which the broker waits."""
        self._rounds = 0
        self._round()
        self._process.after(SECOND, self._tick)

    def stop(self) -> None:
        """End at once."""
        self._process.kill()

    def end(self) -> None:
        """End as on an interrupt: send a last tick, and drop pending answers."""
        self._emitter.emit(Tick(**self._emitter.stamp(), end=True))
        self._process.kill()

    def set_clock(self, by: int) -> None:
        """Set the collector's clock ahead, or back if negative; milliseconds."""
        self._clock.set(by)
        self._emitter.follow_clock()

    def _tick(self) -> None:
        self._emitter.emit(Tick(**self._emitter.stamp()))
        self._process.after(SECOND, self._tick)

    def _round(self) -> None:
        current = _Round(dead_letters=self._rounds % DEAD_LETTERS_EVERY == 0)
        self._rounds += 1
        for broker in self._brokers:
            self._process.spawn(self._ask_broker(current, broker))
        self._process.after(INTERVAL, self._round)

    async def _ask_broker(self, current: "_Round", broker: Broker) -> None:
        asked = self._world.scheduler.now
        request = partial(broker.runtime_info, self._emitter.source_id, self._clock.at(asked))
        status = await self._request(broker, request)
        stamp, when = self._emitter.stamp(broker.name), self._when(asked)
        if isinstance(status, RpcError):
            self._emitter.emit(BrokerStatus(**stamp, **when, error=status))
        else:
            now = status.now + broker.hook.ahead
            self._emitter.emit(BrokerStatus(**stamp, **when, boot_time=status.boot_time, now=now))
        for group in self._groups:
            if self._is_known(broker, group):
                self._process.spawn(self._ask_group(current, broker, group))

    def _is_known(self, broker: Broker, group: str) -> bool:
        """Return whether the broker lists the group, or has done so, or had members of it, a short time ago.

        A broker with queues of its topics is asked about a group that another broker lists, too.
        """
        now, info = self._world.scheduler.now, broker.manager.consumer_table.get(group)
        has_members = info is not None and bool(info.channel_info_table)
        if _lists(broker, group) or has_members or (self._serves(broker, group) and self._is_listed(group)):
            self._known[broker.name, group] = now
        return now - self._known.get((broker.name, group), -FORGOTTEN_AFTER - 1) <= FORGOTTEN_AFTER

    def _is_listed(self, group: str) -> bool:
        return any(_lists(broker, group) for broker in self._brokers)

    def _serves(self, broker: Broker, group: str) -> bool:
        routes = [self._world.name_server.route(topic) or () for name, topic in self._routed if name == group]
        return any(mq.broker == broker.name for route in routes for mq in route)

    async def _ask_group(self, current: "_Round", broker: Broker, group: str) -> None:
        asked = self._world.scheduler.now
        answers = await self._request(broker, partial(_Answers, broker, group))
        when = self._when(asked)
        if isinstance(answers, RpcError):
            self._emitter.emit(ConsumerConnection(**self._stamp(group, broker), **when, error=answers))
            self._emitter.emit(ConsumeStats(**self._stamp(group, broker), **when, error=answers))
            if current.dead_letters:
                dead = _dead_letter_topic(group)
                self._emitter.emit(TopicStats(**self._stamp(group, broker), **when, topic=dead, error=answers))
            return
        await self._routes(current, group, [one.topic for one in answers.subscriptions])
        self._emitter.emit(answers.connection(self._stamp(group, broker), when))
        await self._routes(current, group, list(answers.time_spans))
        self._emitter.emit(ConsumeStats(**self._stamp(group, broker), **when, queues=answers.stats))
        for topic, queues in answers.time_spans.items():
            self._emitter.emit(ConsumeTimeSpan(**self._stamp(group, broker), **when, topic=topic, queues=queues))
        if current.dead_letters:
            dead = _dead_letter_topic(group)
            self._emitter.emit(
                TopicStats(**self._stamp(group, broker), **when, topic=dead, queues=answers.dead_letters)
            )
        for one in answers.connections:
            self._request_client_once(current, broker, group, one)

    def _when(self, asked: int) -> "_When":
        """Return when an answer that came now was requested: by the present clock, though it was set meanwhile.

        Args:
            asked: true time, microseconds.
        """
        return _When(asked=self._clock.at(asked), answered=self._clock.now())

    def _stamp(self, group: str, broker: Broker) -> GroupStamp:
        return self._emitter.group_stamp(group, broker.name)

    async def _routes(self, current: "_Round", group: str, topics: Sequence[str]) -> None:
        """Request the routes of these topics once per round and group; wait for those that the group never had."""
        keys = [(group, topic) for topic in topics if not topic.startswith(RETRY_TOPIC_PREFIX)]
        new = [key for key in keys if key not in current.routes]
        current.routes.update(new)
        if new:
            self._process.spawn(self._ask_routes(group, [topic for _, topic in new]))
        if not self._routed.issuperset(keys):
            await self._process.sleep_until(self._world.scheduler.now + 2 * LATENCY)

    async def _ask_routes(self, group: str, topics: Sequence[str]) -> None:
        asked = self._world.scheduler.now
        await self._process.sleep_until(asked + 2 * LATENCY)
        when = self._when(asked)
        for topic in topics:
            self._routed.add((group, topic))
            queues = self._world.name_server.route(topic)
            stamp = self._emitter.group_stamp(group)
            if queues is None:
                error = RpcError(code=17, remark=f"No topic route info in name server for the topic: {topic}")
                self._emitter.emit(TopicRoute(**stamp, **when, topic=topic, error=error))
            else:
                self._emitter.emit(TopicRoute(**stamp, **when, topic=topic, queues=queues))

    def _request_client_once(self, current: "_Round", broker: Broker, group: str, listed: Connection) -> None:
        member = group, listed.client_id
        if member not in current.members and member not in self._under_way:
            self._under_way.add(member)
            self._process.spawn(self._ask_client(broker, group, listed))
        current.members.add(member)

    async def _ask_client(self, broker: Broker, group: str, listed: Connection) -> None:
        client_id = listed.client_id
        gate = self._narrow_gate if client_id in self._silent else self._gate
        await gate.enter()
        asked = self._world.scheduler.now
        answer = await self._request_through(broker, group, listed)
        gate.leave()
        self._under_way.discard((group, client_id))
        stamp, when = self._stamp(group, broker), self._when(asked)
        if isinstance(answer, RpcError):
            (self._silent.add if answer.code == CONSUME_MSG_TIMEOUT else self._silent.discard)(client_id)
            event = ConsumerRunningInfo(**stamp, **when, client_id=client_id, error=answer)
        else:
            self._silent.discard(client_id)
            event = ConsumerRunningInfo(
                **stamp,
                **when,
                client_id=client_id,
                orderly=answer.orderly,
                strategy=answer.strategy,
                start_time=answer.start_time,
                properties=answer.properties,
                subscriptions=answer.subscriptions,
                queues=answer.queues,
                pop_queues=answer.pop_queues,
            )
        self._emitter.emit(event)

    async def _request(self, broker: Broker, request: Callable[[], T]) -> T | RpcError:
        """Return a broker's answer as of the arrival of the request; an error if it is down."""
        await self._process.sleep_until(self._world.scheduler.now + LATENCY)
        answer = request() if broker.up else RpcError(code=UNREACHABLE, remark=f"{broker.name}: connection refused")
        await self._process.sleep_until(self._world.scheduler.now + LATENCY)
        return answer

    def _request_through(self, broker: Broker, group: str, listed: Connection) -> Promise[ClientAnswer]:
        """Return a client's answer, forwarded by its broker, which waits for it for a limited time."""
        promise: Promise[ClientAnswer] = Promise()
        self._process.after(LATENCY, partial(self._forward, broker, group, listed, promise))
        return promise

    def _forward(self, broker: Broker, group: str, listed: Connection, promise: Promise[ClientAnswer]) -> None:
        """Forward a request from the broker to the client."""

        def back(answer: ClientAnswer) -> None:
            self._process.after(LATENCY, partial(promise.resolve, answer))

        info = broker.manager.consumer_table.get(group) if broker.up else None
        # Of two channels of one id the broker takes the older one: the one listed first, since ports count up.
        client_id = listed.client_id
        member = None if info is None else info.channel_info_table.get(listed.channel) or info.find_channel(client_id)
        if not broker.up:
            back(RpcError(code=UNREACHABLE, remark=f"{broker.name}: connection refused"))
        elif member is None:
            back(RpcError(code=SYSTEM_ERROR, remark=f"The Consumer <{group}> <{client_id}> not online"))
        else:
            self._pending.append((self._world.scheduler.now + CLIENT_TIMEOUT, group, client_id, promise))
            if len(self._pending) == 1:
                self._process.after(CLIENT_TIMEOUT, self._time_out)
            self._request_at(broker.channels[member.channel], back)

    def _time_out(self) -> None:
        """Answer for clients that did not; one timer, for the oldest request, since most clients answer early."""
        now, asked = self._world.scheduler.now, self._pending
        while asked and (asked[0][-1].done or asked[0][0] <= now):
            _, group, client_id, promise = asked.popleft()
            if not promise.done:
                error = RpcError(code=CONSUME_MSG_TIMEOUT, remark=f"consumer <{group}> <{client_id}> Timeout")
                self._process.after(LATENCY, partial(promise.resolve, error))
        if asked:
            self._process.after(asked[0][0] - now, self._time_out)

    def _request_at(self, channel: SimulatedChannel, back: Callable[[ClientAnswer], None]) -> None:
        def reply(info: ClientAnswer) -> None:
            self._world.network.up(channel, partial(back, info))

        self._world.network.down(channel, partial(channel.client.running_info, reply))


def _lists(broker: Broker, group: str) -> bool:
    return group in broker.groups.subscription_group_table


def _dead_letter_topic(group: str) -> str:
    return f"{DEAD_LETTER_TOPIC_PREFIX}{group}"


class _Round:
    """The requests that one round has sent so far."""

    def __init__(self, *, dead_letters: bool) -> None:
        self.dead_letters = dead_letters
        """True if it asks for the dead letters."""
        self.routes: set[tuple[str, str]] = set()
        self.members: set[tuple[str, str]] = set()


class _When(TypedDict):
    """The times at which a request was sent and answered, by the collector's clock; epoch milliseconds."""

    asked: int
    answered: int


class _Answers:
    """A broker's answers about a group (203, 208, 303, 202), all taken at one moment."""

    def __init__(self, broker: Broker, group: str) -> None:
        info = broker.manager.consumer_table.get(group)
        self.info = info
        self.connections = broker_responses.connections(broker, group)
        self.is_created = None if self.connections or _lists(broker, group) else False
        self.is_fifo = broker.pops.is_fifo(group)
        self.subscriptions = () if info is None else client_responses.subscriptions(info.subscription_table)
        self.stats = broker_responses.consume_stats(broker, group)
        topics = dict.fromkeys(row.mq.topic for row in self.stats)
        self.time_spans = {topic: broker_responses.consume_time_span(broker, group, topic) for topic in topics}
        self.dead_letters = broker_responses.topic_stats(broker, _dead_letter_topic(group))

    def connection(self, stamp: GroupStamp, when: _When) -> ConsumerConnection:
        """Return the event of the group's members."""
        info = self.info
        return ConsumerConnection(
            **stamp,
            **when,
            connections=self.connections,
            subscriptions=self.subscriptions,
            consume_type="" if info is None else info.consume_type,
            message_model="" if info is None else info.message_model,
            consume_from_where="" if info is None else info.consume_from_where,
            is_created=self.is_created,
            consume_message_orderly=self.is_fifo,
        )
