"""The poll collector: at every interval one round of requests to every broker and every client.

A round sends these requests, with limited parallelism: to the name server for the brokers; to each broker for its boot
time (28) and its groups (201); to each broker, for each group, for the members (203), then the offsets (208), then the
waiting times of each topic (303); to each configured proxy, for each group, for the clients there (203, `proxies`); to
the name server for the routes of the topics in these answers; to every member for its own state (307), which has the
stacks of its listener if that has finished no message for long (`stacks`). The dead letters of a group (202) change
rarely: they are requested in one of several rounds, not of all groups in the same.

Each answer, and each request without an answer, becomes an event at once. The event has the times of the request and of
the answer. Within a group and a broker the members come before the offsets, and a client's state after both; a topic's
first route comes before the events that name the topic, which is the only reason to delay an answer. Brokers don't wait
for each other, nor for a frozen client (`member_requests`).

Of a broker with more groups than a round has time for, some groups get no request and no event: the next round begins
with them, so each has its turn.

A broker of several replicas is asked at its master, or at the slave that acts as master. Without either the broker is
unreachable: its master is asked for its status at its last address. What does not need a master (members, offsets, the
clients' own state) is asked at a slave meanwhile, which the clients use, too.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from fnmatch import fnmatchcase
from functools import partial
from typing import TypeVarTuple

import structlog

from rebalance_model.entities import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX
from rebalance_model.observe.events import (
    DEADLINE,
    UNREACHABLE,
    UNREADABLE,
    BrokerStatus,
    ConsumerConnection,
    ConsumeStats,
    ConsumeTimeSpan,
    ProxyConnection,
    RpcError,
    Tick,
    TopicRoute,
    TopicStats,
)
from streaming.base.limits import BROKERS, REMARK_CHARACTERS, SILENT_BROKER_GROUPS
from streaming.base.sections.collector import Collector
from streaming.base.span import Span
from streaming.collect import revive
from streaming.collect.access import check_access
from streaming.collect.client import RequestRefusedError, RpcFailedError
from streaming.collect.cluster_responses import ListedBroker
from streaming.collect.emitter import Emitter
from streaming.collect.gates import Gates
from streaming.collect.known_brokers import KnownBrokers, Place
from streaming.collect.known_groups import KnownGroups
from streaming.collect.member_requests import LeftError, MemberRequests
from streaming.collect.poll_round import PolledAnswer, PolledGroup, Request, Round, Share, Summary, everything
from streaming.collect.polled_events import PolledEvents
from streaming.collect.proxies import Proxies
from streaming.collect.response_parts import Payload
from streaming.collect.round_warnings import RoundWarnings
from streaming.collect.rpc import Rpc
from streaming.collect.stacks import Listeners
from streaming.collect.system_groups import is_system_group

log = structlog.get_logger()

IMPLICIT_TOPICS = (RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX)
"""Topics that no rule needs a route of."""

_Ts = TypeVarTuple("_Ts")


class Claims(dict[str, "Poller"]):
    """By cluster, the poller that polls it: two clusters of one name could not be distinguished."""


class Poller:
    """Polls in rounds. Brokers and groups once found are polled until this poller ends."""

    def __init__(
        self,
        rpc: Rpc,
        emitter: Emitter,
        settings: Collector,
        claims: Claims | None = None,
        *,
        proxies: Sequence[str] = (),
    ) -> None:
        """Poll the clusters of one set of name servers.

        Args:
            rpc: its requests.
            emitter: the events, shared by the pollers of a collector.
            settings: the collector's.
            claims: which poller polls which cluster, shared by the pollers of a collector.
            proxies: host:port of each proxy to ask for the groups' clients.
        """
        self._claims = Claims() if claims is None else claims
        self._rpc = rpc
        self._emitter = emitter
        self._settings = settings
        self._gates = Gates(settings.parallelism)
        self.doubles: set[str] = set()
        """Clusters that are not polled here, because another poller has found a cluster of that name."""
        self._brokers = KnownBrokers()
        self._groups = KnownGroups()
        self._first: dict[Place, str] = {}
        """By broker, the group with which the next round begins, if the last one was too short for all."""
        self._routed: set[tuple[str, str, str]] = set()
        """The topics whose routes have been sent to which groups: (cluster, group, topic)."""
        self._rounds = 0
        self._dead_letters_every = max(1, round(settings.dead_letters_interval_ms / settings.interval_ms))
        """Dead letters are requested in one of this many rounds."""
        self._warnings = RoundWarnings(log)
        self._events = PolledEvents(emitter, self._warnings)
        self._members = MemberRequests(
            rpc, emitter.clock, self._gates, Listeners(settings.stacks_after_ms), self._ask_member, self._events,
            self._confined,
        )  # fmt: skip
        asked = self._ask_proxy, self._emit_of_proxy, self._confined
        self._proxies = Proxies(proxies, settings.parallelism, *asked)

    async def find_brokers(self) -> None:
        """Request the brokers from the name server.

        Raises:
            RpcFailedError: no name server answers.
        """
        answer = await self._rpc.brokers(self._settings.deadline_ms / 1000)
        clusters = {broker.cluster for broker in answer.brokers}
        self.doubles |= {name for name in clusters if self._claims.setdefault(name, self) is not self}
        here = [broker for broker in answer.brokers if broker.cluster not in self.doubles]
        self._brokers.update(here, self._emitter.clock.steady())
        self._groups.keep(self._brokers.masters)
        for text in answer.unreadable:
            self._warnings.warn("the name server lists a broker that can't be read", reason=text)
        if self._brokers.left_out:
            self._warnings.warn("the name server lists too many brokers: some are not polled", limit=BROKERS)

    async def check_access(self) -> None:
        """Do `access.check_access` with the brokers found so far."""
        await check_access(self._brokers.in_use(), self._rpc, self._settings.parallelism)

    async def round(self, share: Share = everything) -> Summary:
        """Poll all brokers; return when all have answered or the deadline has passed.

        Args:
            share: the groups to poll.
        """
        async with asyncio.TaskGroup() as tasks:
            current = Round(self._settings.deadline_ms / 1000, tasks, share, self._rounds)
            self._rounds += 1
            self._rpc.begin_round()
            self._warnings.begin_round()
            tasks.create_task(self._confined("the name server", self._find_more_brokers))
            for place, master in list(self._brokers.masters.items()):
                tasks.create_task(self._confined(place[1], self._ask_status, current, place, master))
            for broker in self._brokers.in_use():
                tasks.create_task(self._confined(broker.name, self._ask_broker, current, broker))
        return await self._end(current)

    @property
    def clusters(self) -> list[str]:
        """The names of the clusters found so far."""
        return self._brokers.clusters()

    def tick(self, *, end: bool = False) -> None:
        """Emit a tick in every cluster: all events stamped so far have been sent; with ``end``, none will follow."""
        for cluster in self.clusters:
            self._emitter.emit(Tick, cluster=cluster, end=end)

    async def _confined(self, subject: str, work: Callable[[*_Ts], Awaitable[None]], *args: *_Ts) -> None:
        """Await a part of the round; whatever it raises ends this part alone, and is printed once."""
        try:
            await work(*args)
        except RpcFailedError as error:
            self._events.tally.errors += 1
            self._warnings.warn("a part of the round failed", subject=subject, error=str(error))
        except Exception as error:  # noqa: BLE001  no answer of anybody may end the collector
            self._events.tally.errors += 1
            self._warnings.warn("a part of the round failed", subject=subject, error=repr(error), exc_info=error)

    async def drain(self) -> None:
        """Wait for clients that have not answered yet."""
        await self._members.drain()

    async def cancel(self) -> None:
        """Cancel the pending requests."""
        await self._members.cancel()

    async def _find_more_brokers(self) -> None:
        """Find new brokers for the next round; the known ones don't wait for a name server."""
        doubles = set(self.doubles)
        try:
            await self.find_brokers()
        except RpcFailedError as error:
            log.warning("no name server answers", error=str(error))
            self._brokers.note_unlisted()
            self._events.tally.errors += 1
        else:
            await self._rpc.keep_connections(self._brokers.in_use())
        for name in sorted(self.doubles - doubles):
            log.error("two entries of collector.clusters have one cluster: it is polled in one of them", cluster=name)

    async def _end(self, current: Round) -> Summary:
        loop = asyncio.get_running_loop()
        if current.clients:
            answered, _ = await asyncio.wait(current.clients, timeout=max(0.0, current.deadline - loop.time()))
            await asyncio.gather(*answered)
        groups = current.groups.values()
        self._routed &= {(group.cluster, group.name, topic) for group in groups for topic in group.routes}
        members = [group.member(client) for group in groups for client in group.members]
        self._members.keep(members)
        summary = self._events.take()  # late answers count in the next round
        summary.groups = len(current.groups)
        summary.members = len(members)
        summary.pending = self._members.pending
        summary.ms = round((loop.time() - current.started) * 1000)
        summary.trace = self._trace(summary)
        return summary

    def _trace(self, summary: Summary) -> Span:
        """Return the round as a span with the requests to each server."""
        ended = time.time_ns()
        began = ended - summary.ms * 1_000_000
        brokers = {broker.address: f"broker {broker.name}" for broker in self._brokers.in_use()}
        requests = self._rpc.requests.take(brokers, began)
        return Span("poll round", began, ended, summary.numbers(), requests, ", ".join(self.clusters))

    async def _ask_broker(self, current: Round, broker: ListedBroker) -> None:
        place, room = broker.place, asyncio.Semaphore(2 * self._settings.parallelism)
        known, answers = await self._groups_of(current, broker)
        shared = (name for name in known if current.share(broker.cluster, name))
        first = self._first.pop(place, "")
        names = sorted(shared, key=lambda name: (name < first, name))
        self._proxies.begin(current, broker.cluster, names)
        if not answers:
            self._first[place] = names[SILENT_BROKER_GROUPS] if len(names) > SILENT_BROKER_GROUPS else first
            self._events.tally.late += max(0, len(names) - SILENT_BROKER_GROUPS)
            names = names[:SILENT_BROKER_GROUPS]
        for number, name in enumerate(names):
            if answers and not await current.has_time(room):
                self._first[place] = name
                self._events.tally.late += len(names) - number
                break
            asking = self._confined(name, self._ask_group, current, current.group(broker.cluster, name), broker)
            # Not in a task group of its own: that is cancelled later than the round, and its tasks would begin others.
            task = current.tasks.create_task(asking)
            task.add_done_callback(lambda _: room.release())

    async def _ask_status(self, current: Round, place: Place, master: ListedBroker | None) -> None:
        cluster, name = place
        if master is None:
            now = self._emitter.clock.steady()
            missing = RpcError(code=UNREACHABLE, remark=f"the name server lists no master of {name}")
            listed = self._brokers.is_listed(place)
            self._events.emit(
                BrokerStatus, PolledAnswer(now, now, None, missing), cluster=cluster, broker=name, listed=listed
            )
            return
        ask, steps = partial(self._rpc.broker_status, master, self._emitter.source_id), self._emitter.clock.steps
        gate = None if place in self._brokers.silent else self._gates.broker(place)
        backlog = asyncio.create_task(revive.backlog(self._rpc, master, gate))
        answer = (await self._ask(ask, current, self._gate_of(place))).with_fields(revive_backlog=await backlog)
        self._emitter.follow_clock()
        if answer.payload is not None and self._emitter.clock.steps != steps:
            del answer.payload["asked"]  # by the clock as it was set before
        listed = self._brokers.is_listed(place) if answer.payload is None else None
        self._events.emit_as_set(
            BrokerStatus, answer, cluster=cluster, broker=name, broker_id=master.broker_id, listed=listed
        )

    async def _groups_of(self, current: Round, broker: ListedBroker) -> tuple[set[str], bool]:
        """Return the groups to request from this broker, the last known ones if it does not answer; whether it does.

        If it does not, an event of each group says so.
        """
        patterns, place = self._settings.groups, broker.place
        answer = await self._ask(partial(self._group_names, broker), current, self._gate_of(place))
        is_news = self._brokers.note(broker, answers=answer.payload is not None)
        if answer.payload is None:
            if is_news and answer.error is not None:
                self._warnings.say("a broker does not return its groups", broker=broker.name, error=answer.error.remark)
            self._events.tally.errors += 1
            return self._groups.of(place), False
        listed = {
            name: is_fifo is True
            for name, is_fifo in answer.payload.items()
            if not is_system_group(name) and (not patterns or any(fnmatchcase(name, pattern) for pattern in patterns))
        }
        return self._groups.update(place, listed, self._emitter.clock.steady()), True

    def _gate_of(self, place: Place) -> asyncio.Semaphore:
        """Return the room for a broker's first requests of a round: those that did not answer last time share one."""
        return self._gates.silent if place in self._brokers.silent else self._gates.broker(place)

    async def _group_names(self, broker: ListedBroker, seconds: float) -> Payload:
        return {**await self._rpc.groups(broker, seconds)}

    async def _ask_group(self, current: Round, group: PolledGroup, broker: ListedBroker) -> None:
        """Request members and offsets of a group from one broker, then the members' state and other quantities.

        The requests are sequential: this keeps the order of their answers without delaying any.
        """
        emit = partial(self._events.emit_of, group, broker=broker)
        gate = self._gates.broker(broker.place)
        members = await self._ask(partial(self._rpc.connection, broker, group.name), current, gate)
        await self._routes(current, group, [one.topic for one in members.rows("subscriptions")])
        if members.payload and not members.payload["connections"] and not self._groups.lists(broker.place, group.name):
            members = members.with_fields(is_created=False)
        if self._groups.is_fifo(broker.place, group.name):
            members = members.with_fields(consume_message_orderly=True)
        listed = members.rows("connections") if emit(ConsumerConnection, members) else []
        if listed:
            self._groups.note_members(broker.place, group.name, self._emitter.clock.steady())
        stats = await self._ask(partial(self._rpc.consume_stats, broker, group.name), current, gate)
        topics = list(dict.fromkeys(queue.mq.topic for queue in stats.rows("queues")))
        await self._routes(current, group, topics)
        emit(ConsumeStats, stats)
        for one in listed:
            self._members.begin(current, group, broker, one.client_id)
        if self._settings.consume_time_span:
            await asyncio.gather(*(self._ask_time_span(current, group, broker, topic) for topic in topics))
        if self._settings.dead_letters_interval_ms and current.is_turn_of(group.name, self._dead_letters_every):
            await self._ask_dead_letters(current, group, broker)

    async def _ask_time_span(self, current: Round, group: PolledGroup, broker: ListedBroker, topic: str) -> None:
        """Request how long the messages of one topic wait; for all topics of the offsets, retry topics included."""
        ask = partial(self._rpc.consume_time_span, broker, group.name, topic)
        answer = await self._ask(ask, current, self._gates.broker(broker.place))
        self._events.emit_of(group, ConsumeTimeSpan, answer, broker=broker, topic=topic)

    async def _ask_dead_letters(self, current: Round, group: PolledGroup, broker: ListedBroker) -> None:
        topic = f"{DEAD_LETTER_TOPIC_PREFIX}{group.name}"
        ask = partial(self._rpc.topic_stats, broker, topic)
        answer = await self._ask(ask, current, self._gates.broker(broker.place))
        self._events.emit_of(group, TopicStats, answer, broker=broker, topic=topic)

    async def _routes(self, current: Round, group: PolledGroup, topics: list[str]) -> None:
        """Request the routes of these topics; wait for those that were never emitted for the group."""
        for topic in topics:
            if topic and topic not in group.routes and not topic.startswith(IMPLICIT_TOPICS):
                group.routes[topic] = current.tasks.create_task(self._ask_route(current, group, topic))
        unknown = [topic for topic in topics if (group.cluster, group.name, topic) not in self._routed]
        await asyncio.gather(*(group.routes[topic] for topic in unknown if topic in group.routes))

    async def _ask_route(self, current: Round, group: PolledGroup, topic: str) -> None:
        """Request a topic's route once per round, and emit it once for each group."""
        if topic not in current.routes:
            asking = self._ask(partial(self._rpc.route, topic), current, self._gates.name_servers)
            current.routes[topic] = asyncio.create_task(asking)
        route = await current.routes[topic]
        brokers = {mq.broker for mq in route.rows("queues")}
        self._groups.note_route(group.cluster, group.name, brokers, self._emitter.clock.steady())
        self._events.emit_of(group, TopicRoute, route, topic=topic)
        self._routed.add((group.cluster, group.name, topic))

    async def _ask(self, ask: Request, current: Round | None, gate: AbstractAsyncContextManager[None]) -> PolledAnswer:
        """Send a request when there is room: by the round's deadline or, without a round, by a client's own."""
        try:
            async with asyncio.timeout_at(current.deadline if current else None) as to_wait, gate:
                to_wait.reschedule(None)
                return await self._ask_at_once(ask, current)
        except TimeoutError:
            return self._not_asked()

    async def _ask_at_once(self, ask: Request, current: Round | None) -> PolledAnswer:
        loop = asyncio.get_running_loop()
        asked = self._emitter.clock.steady()
        left = current.deadline - loop.time() if current else self._settings.client_deadline_ms / 1000
        try:
            if left <= 0:
                return self._not_asked()
            payload = await ask(left)
            return PolledAnswer(asked, self._emitter.clock.steady(), payload, None)
        except RpcFailedError as error:
            return PolledAnswer(asked, self._emitter.clock.steady(), None, self._error_of(error))
        except LeftError:
            raise
        except Exception as error:  # noqa: BLE001  of any answer, address, client or parser: it ends this request alone
            self._warnings.warn("a request failed", request=_name_of(ask), error=repr(error), exc_info=error)
            unreadable = RpcError(code=UNREADABLE, remark=repr(error)[:REMARK_CHARACTERS])
            return PolledAnswer(asked, self._emitter.clock.steady(), None, unreadable)

    def _not_asked(self) -> PolledAnswer:
        now = self._emitter.clock.steady()
        return PolledAnswer(now, now, None, RpcError(code=DEADLINE, remark="not asked: the round's time was over"))

    def _error_of(self, error: RpcFailedError) -> RpcError:
        """Return a failed request as events have it; more about it is printed once."""
        if error.detail:
            self._warnings.warn("no answer", error=error.remark, detail=error.detail)
        if not isinstance(error, RequestRefusedError):
            return RpcError(code=error.code, remark=error.remark)
        self._events.tally.refusals.add(error.remark)
        # What listens at an address that anybody may have registered is for who runs the collector alone.
        remark = error.remark if error.code != UNREACHABLE else "the connection was refused"
        return RpcError(code=error.code, remark=remark)

    async def _ask_member(self, ask: Request, gate: AbstractAsyncContextManager[None]) -> PolledAnswer:
        return await self._ask(ask, None, gate)

    async def _ask_proxy(self, current: Round, gate: asyncio.Semaphore, proxy: str, group: str) -> PolledAnswer:
        return await self._ask(partial(self._rpc.proxy_connection, proxy, group), current, gate)

    def _emit_of_proxy(self, answer: PolledAnswer, proxy: str, cluster: str, group: str) -> None:
        self._events.emit(ProxyConnection, answer, cluster=cluster, group=group, proxy=proxy)


def _name_of(ask: Request) -> str:
    """Return the name of a request, with what it is about."""
    if isinstance(ask, partial):
        return " ".join([ask.func.__name__, *map(str, ask.args)])
    return getattr(ask, "__name__", "")
