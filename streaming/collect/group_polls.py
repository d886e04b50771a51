"""Ask one broker about one group: members, offsets, routes of the topics, waiting times, dead letters."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from rebalance_model.entities import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX
from rebalance_model.observe.events import (
    Connection,
    ConsumerConnection,
    ConsumeStats,
    ConsumeTimeSpan,
    OffsetInfo,
    RpcError,
    TopicRoute,
    TopicStats,
)
from streaming.base.limits import FIRST_ROUTE_SECONDS, GROUP_TOPICS, GROUP_TOPICS_MIN, ROUND_TOPICS
from streaming.base.sections.collector import Collector
from streaming.collect.asking import Asker
from streaming.collect.client import RpcFailedError
from streaming.collect.cluster_responses import ListedBroker
from streaming.collect.emitter import SourceClock
from streaming.collect.gates import Gates
from streaming.collect.known_brokers import KnownGroups
from streaming.collect.poll_round import PolledAnswer, PolledGroup, Request, Round
from streaming.collect.polled_events import PolledEvents
from streaming.collect.response_parts import Payload
from streaming.collect.rpc import Rpc

IMPLICIT_TOPICS = (RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX)
"""Topics that no rule needs a route of."""

LATE_MS = 60_000
"""A queue whose last consumed message was stored before so long is read late; its clock may be a little wrong."""
_AT_A_TIME = 4
"""Routes that are requested for one group."""
Wait: TypeAlias = Callable[[], None]
AskMember: TypeAlias = Callable[[Round, PolledGroup, ListedBroker, Connection], None]
"""Begins to ask a client, which a broker lists, for its own state."""


@dataclass(eq=False)
class GroupPolls:
    """Asks brokers about groups."""

    rpc: Rpc
    clock: SourceClock
    asker: Asker
    gates: Gates
    groups: KnownGroups
    events: PolledEvents
    settings: Collector
    ask_member: AskMember
    _routed: set[tuple[str, str, str]] = field(default_factory=set, init=False)
    """The topics whose routes have been sent to which groups: (cluster, group, topic)."""
    _polled: int = field(default=0, init=False)
    """The number of groups in the last round."""
    _with_offsets: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict, init=False)
    """By cluster and group, the topics of its last offsets at any broker."""

    def keep(self, groups: list[PolledGroup]) -> None:
        """Forget the topics that these groups, which were polled in a round, do not name, and all other groups."""
        self._polled = len(groups)
        here = {(group.cluster, group.name): group for group in groups}
        self._routed = {
            (cluster, name, topic)
            for cluster, name, topic in self._routed
            if (group := here.get((cluster, name))) is not None and topic in group.topics
        }
        self._with_offsets = {key: topics for key, topics in self._with_offsets.items() if key in here}

    async def ask(self, current: Round, group: PolledGroup, broker: ListedBroker, wait: Wait) -> None:
        """Request everything about a group from one broker.

        The requests are sequential: this keeps the order of their answers without delaying any. ``wait`` is called
        before the group waits for a name server: the next group may begin.
        """
        members = await self.ask_members(current, group, broker, wait)
        await self.ask_rest(current, group, broker, members, wait)

    async def ask_members(
        self, current: Round, group: PolledGroup, broker: ListedBroker, wait: Wait
    ) -> list[Connection]:
        """Request the members of a group from one broker; return them."""
        place, now = broker.place, self.clock.steady
        members = await self._ask(partial(self.rpc.connection, broker, group.name), current, group, broker)
        await self._ask_routes(current, group, [one.topic for one in members.rows("subscriptions")], wait)
        if members.payload and not members.payload["connections"] and not self.groups.lists(place, group.name):
            members = members.with_fields(is_created=False)
        if self.groups.is_fifo(place, group.name):
            members = members.with_fields(consume_message_orderly=True)
        is_listed = self.events.emit_of(group, ConsumerConnection, members, broker=broker)
        listed = members.rows("connections") if is_listed else []
        if members.payload is not None:
            self.groups.note_asked(place, group.name, now(), has_members=bool(listed))
        return listed

    async def ask_rest(
        self, current: Round, group: PolledGroup, broker: ListedBroker, members: list[Connection], wait: Wait
    ) -> None:
        """Request what follows the members: offsets, their own state, and other quantities."""
        stats = await self._ask(partial(self.rpc.consume_stats, broker, group.name), current, group, broker)
        topics = list(dict.fromkeys(queue.mq.topic for queue in stats.rows("queues")))
        await self._ask_routes(current, group, topics, wait)
        if topics:
            named = (topic for topic in topics if not topic.startswith(IMPLICIT_TOPICS))
            self._with_offsets[group.cluster, group.name] = frozenset(named)
        self.events.emit_of(group, ConsumeStats, stats, broker=broker)
        for one in members:
            self.ask_member(current, group, broker, one)
        if self.settings.oldest_offsets:
            await self._ask_oldest(current, group, broker, stats)
        if self.settings.consume_time_span:
            timed = _in_turn(topics, current.number, GROUP_TOPICS)
            await asyncio.gather(*(self._ask_time_span(current, group, broker, topic) for topic in timed))
        every = round(self.settings.dead_letters_interval_ms / self.settings.interval_ms)
        if self.settings.dead_letters_interval_ms and current.is_turn_of(group.name, max(1, every)):
            await self._ask_stored(current, group, broker, f"{DEAD_LETTER_TOPIC_PREFIX}{group.name}")

    async def _ask_time_span(self, current: Round, group: PolledGroup, broker: ListedBroker, topic: str) -> None:
        """Request how long the messages of one topic wait; for all topics of the offsets, retry topics included."""
        ask = partial(self.rpc.consume_time_span, broker, group.name, topic)
        answer = await self._ask(ask, current, group, broker)
        self.events.emit_of(group, ConsumeTimeSpan, answer, broker=broker, topic=topic)

    async def _ask_oldest(self, current: Round, group: PolledGroup, broker: ListedBroker, stats: PolledAnswer) -> None:
        """Request which messages are still stored of the topic of which the group is furthest behind, if any."""
        topic = furthest_behind(stats.rows("queues"), self.clock.time_of(stats.answered))
        if topic is not None:
            await self._ask_stored(current, group, broker, topic)

    async def _ask_stored(self, current: Round, group: PolledGroup, broker: ListedBroker, topic: str) -> None:
        """Request between which offsets the messages of a topic are stored."""
        answer = await self._ask(partial(self.rpc.topic_stats, broker, topic), current, group, broker)
        self.events.emit_of(group, TopicStats, answer, broker=broker, topic=topic)

    async def _ask_routes(self, current: Round, group: PolledGroup, topics: list[str], wait: Wait) -> None:
        """Request the routes of these topics; wait for those that were never emitted for the group."""
        named = [topic for topic in topics if topic and not topic.startswith(IMPLICIT_TOPICS)]
        group.topics.update(named)
        fresh = [topic for topic in named if topic not in group.routes]
        if (room := self._topics_of_one(current) - len(group.routes)) < len(fresh):
            with_offsets = self._with_offsets.get((group.cluster, group.name), frozenset()) - group.routes.keys()
            first = _in_turn([topic for topic in fresh if topic in with_offsets], current.number, room)
            others = [topic for topic in fresh if topic not in with_offsets]
            kept = max(len(first), len(with_offsets))  # the offsets that come later name the rest of them
            fresh = first + _in_turn(others, current.number, room - kept)
        for part in filter(None, (fresh[at::_AT_A_TIME] for at in range(_AT_A_TIME))):
            task = current.tasks.create_task(self._ask_some_routes(current, group, part))
            group.routes |= dict.fromkeys(part, task)
        unknown = [topic for topic in named if (group.cluster, group.name, topic) not in self._routed]
        if asked := {group.routes[topic] for topic in unknown if topic in group.routes}:
            wait()
            await asyncio.wait(asked, timeout=FIRST_ROUTE_SECONDS)

    def _topics_of_one(self, current: Round) -> int:
        """Return of how many topics a group gets the routes in a round."""
        share = ROUND_TOPICS // max(1, len(current.groups), self._polled)
        return max(GROUP_TOPICS_MIN, min(GROUP_TOPICS, share))

    async def _ask_some_routes(self, current: Round, group: PolledGroup, topics: list[str]) -> None:
        for topic in topics:
            await self.asker.confined(topic, self._ask_route, current, group, topic)

    async def _ask_route(self, current: Round, group: PolledGroup, topic: str) -> None:
        """Request a topic's route once per round, and emit it once for each group."""
        if topic not in current.routes:
            gate = self.gates.name_servers.place(group.name)
            ask = partial(self._route, current, topic)
            asking = self.asker.ask(ask, gate, deadline=current.deadline, seconds=current.seconds)
            current.routes[topic] = asyncio.create_task(asking)
        route = await current.routes[topic]
        brokers = {mq.broker for mq in route.rows("queues")}
        self.groups.note_route(group.cluster, group.name, brokers, self.clock.steady())
        self.events.emit_of(group, TopicRoute, route, topic=topic)
        self._routed.add((group.cluster, group.name, topic))

    async def _route(self, current: Round, topic: str, seconds: float) -> Payload:
        """Request a route, unless the name servers have left another request of the round without an answer."""
        if (error := current.no_route) is not None:
            raise RpcFailedError(error.code, error.remark)
        try:
            return await self.rpc.route(topic, seconds)
        except RpcFailedError as failure:
            error = RpcError(code=failure.code, remark=failure.remark)
            current.no_route = error if error.is_silence else None
            raise

    async def _ask(self, ask: Request, current: Round, group: PolledGroup, broker: ListedBroker) -> PolledAnswer:
        gate = self.gates.broker(broker.place).place(group.name)
        return await self.asker.ask(ask, gate, deadline=current.deadline, seconds=current.seconds, place=broker.place)


def furthest_behind(queues: list[OffsetInfo], now: int) -> str | None:
    """Return the topic of the queue with the largest lag of those that are read late; None: none is.

    A queue is read late if the last message that was consumed of it is old, or no longer stored. ``now``: when the
    offsets were answered; epoch milliseconds.
    """
    late = [one for one in queues if one.consumer_offset < one.broker_offset and now - one.last_time > LATE_MS]
    most = max(late, key=lambda one: one.broker_offset - one.consumer_offset, default=None)
    return most.mq.topic if most is not None else None


def _in_turn(topics: list[str], number: int, room: int) -> list[str]:
    """Return at most ``room`` of these topics: all have a turn in successive rounds."""
    if len(topics) <= room or room <= 0:
        return topics[: max(0, room)]
    begin = number * room % len(topics)
    return (topics[begin:] + topics[:begin])[:room]
