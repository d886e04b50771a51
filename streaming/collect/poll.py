"""The poll collector: at every interval one round of requests to every broker and every client.

A round sends these requests, with limited parallelism: to the name server for the brokers; to each broker for its boot
time (28) and its groups (201); to each broker, for each group, for the members (203), then the offsets (208), then the
waiting times of each topic (303); to each configured proxy, for each group, for the clients there (203, `proxies`); to
the name server for the routes of the topics in these answers; to every member for its own state (307), which has the
stacks of its listener if that has finished no message for long (`stacks`). The dead letters of a group (202) change
rarely: they are requested in one of several rounds, not of all groups in the same.

Each answer, and each request without an answer, becomes an event at once. The event has the times of the request and of
the answer. Within a group and a broker the members come before the offsets, and a client's state after both; a topic's
first route comes before the events that name the topic, which is the only reason to delay an answer, and for
`FIRST_ROUTE_SECONDS` at most.

A round has no barrier: each broker has its own part of it (`broker_polls`), and a new round begins at its interval,
whatever of the last one has not ended. Brokers don't wait for each other, nor for a frozen client (`member_requests`).
Which brokers are probed, and which groups come first where the time is short: `known_brokers`.

A broker of several replicas is asked at its master, or at the slave that acts as master. Without either the broker is
unreachable: its master is asked for its status at its last address. What does not need a master (members, offsets, the
clients' own state) is asked at a slave meanwhile, which the clients use, too.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import structlog

from rebalance_model.observe.events import Tick
from streaming.base.limits import BROKERS, FIRST_PROBES, MISSED_PROBES, PROBE_SECONDS, SILENT_PROBES
from streaming.base.sections.collector import Collector
from streaming.base.span import Span
from streaming.collect.asking import Asker
from streaming.collect.broker_polls import BrokerPolls
from streaming.collect.client import CONNECT_SECONDS, RequestRefusedError, RpcFailedError
from streaming.collect.cluster_responses import ListedBroker
from streaming.collect.emitter import Emitter
from streaming.collect.gates import Gates
from streaming.collect.group_polls import GroupPolls
from streaming.collect.known_brokers import KnownBrokers, KnownGroups, Place
from streaming.collect.member_requests import MemberRequests
from streaming.collect.poll_round import Round, Share, Summary, everything
from streaming.collect.polled_events import PolledEvents, RoundWarnings
from streaming.collect.proxies import Proxies
from streaming.collect.rpc import Rpc
from streaming.collect.stacks import Listeners

log = structlog.get_logger()


Claims: TypeAlias = dict[str, "Poller"]
"""The poller of each cluster, by name: two clusters of one name could not be distinguished."""


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
        brokers_max: int = BROKERS,
    ) -> None:
        """Poll the clusters of one set of name servers, and ask its proxies (host:port).

        The pollers of a collector share its emitter and the claims. Each of the brokers needs two connections.
        """
        self._claims = Claims() if claims is None else claims
        self._rpc = rpc
        self._emitter = emitter
        self._settings = settings
        self.doubles: set[str] = set()
        """Clusters that are not polled here, because another poller has found a cluster of that name."""
        self._brokers, self._brokers_max = KnownBrokers(brokers_max), brokers_max
        self._groups = KnownGroups()
        self._rounds = 0
        self._warnings = RoundWarnings(log)
        self._events = PolledEvents(emitter, self._warnings)
        self._asker = Asker(emitter.clock, self._events, self._warnings, self._brokers.note_answer)
        gates = Gates(settings.parallelism)
        self._members = MemberRequests(
            rpc, emitter.clock, settings, self._asker, Listeners(settings.stacks_after_ms), self._events
        )
        self._group_polls = GroupPolls(
            rpc, emitter.clock, self._asker, gates, self._groups, self._events, settings, self._members.begin
        )
        self._polls = BrokerPolls(
            rpc, emitter, settings, self._asker, gates, self._brokers, self._groups, self._group_polls,
            Proxies(proxies, settings.parallelism, rpc, self._asker, self._events), self._events, self._warnings,
        )  # fmt: skip

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
            self._warnings.warn("the name server lists too many brokers: some are not polled", limit=self._brokers_max)

    async def check_access(self) -> None:
        """Request the groups of every broker, until one accepts the client; a slow one is not waited for long.

        Raises:
            RefusedError: every broker refuses the client.
        """
        brokers, gate, accepted = self._brokers.in_use(), asyncio.Semaphore(self._settings.parallelism), asyncio.Event()

        async def refusal(broker: ListedBroker) -> RequestRefusedError | None:
            async with gate:
                try:
                    await self._rpc.groups(broker, CONNECT_SECONDS)
                except RequestRefusedError as error:
                    return error
                except RpcFailedError:
                    return None  # the rounds report it
            accepted.set()
            return None

        asking = asyncio.gather(*map(refusal, brokers))
        ends: list[asyncio.Future[Any]] = [asking, asyncio.create_task(accepted.wait())]
        done, late = await asyncio.wait(ends, timeout=2 * CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)  # asyncio logs an end of theirs that nobody takes
        refusals = [error for error in asking.result() if error is not None] if asking in done else []
        if refusals and len(refusals) == len(brokers):
            raise refusals[0]

    async def round(self, share: Share = everything) -> Summary:
        """Poll all brokers, for the groups of a share; return when all have answered or the deadline has passed."""
        async with asyncio.TaskGroup() as tasks:
            current = Round(self._settings.deadline_ms / 1000, tasks, share, self._rounds)
            self._rounds += 1
            self._rpc.begin_round()
            self._warnings.begin_round()
            turns = self._brokers.turns()
            tasks.create_task(self._asker.confined("the name server", self._find_more_brokers))
            for place in turns.answering:
                tasks.create_task(self._poll(current, place, is_probe=False))
            self._probe(current, turns.new, FIRST_PROBES)
            self._probe(current, turns.missed, MISSED_PROBES)
            self._probe(current, turns.silent, SILENT_PROBES)
        return await self._end(current)

    async def _poll(self, current: Round, place: Place, *, is_probe: bool) -> None:
        await self._asker.confined(place[1], partial(self._polls.poll, current, place, is_probe=is_probe))

    def _probe(self, current: Round, places: Sequence[Place], at_a_time: int) -> None:
        turns = iter(places)
        for _ in range(min(at_a_time, len(places))):
            current.tasks.create_task(self._probe_in_turn(current, turns))

    async def _probe_in_turn(self, current: Round, turns: Iterator[Place]) -> None:
        for place in turns:
            if current.left < min(PROBE_SECONDS, current.seconds / 3):
                self._events.tally.not_asked += 1 + sum(1 for _ in turns)
                return
            await self._poll(current, place, is_probe=True)

    @property
    def clusters(self) -> list[str]:
        """The names of the clusters found so far."""
        return self._brokers.clusters()

    def tick(self, *, end: bool = False) -> None:
        """Emit a tick in every cluster: all events stamped so far have been sent; with ``end``, none will follow."""
        for cluster in self.clusters:
            self._emitter.emit(Tick, cluster=cluster, end=end)

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
            self._members.keep_rooms(self._brokers.masters)
            await self._rpc.keep_connections(self._brokers.in_use())
        for name in sorted(self.doubles - doubles):
            log.error("two entries of collector.clusters have one cluster: it is polled in one of them", cluster=name)

    async def _end(self, current: Round) -> Summary:
        loop = asyncio.get_running_loop()
        if current.clients:
            answered, _ = await asyncio.wait(current.clients, timeout=max(0.0, current.deadline - loop.time()))
            await asyncio.gather(*answered)
        groups = list(current.groups.values())
        self._group_polls.keep(groups)
        members = [group.member(client) for group in groups for client in group.members]
        self._members.keep(members, self._brokers.silent)
        summary = self._events.take()  # late answers count in the next round
        summary.groups = len(current.groups)
        summary.members = len(members)
        summary.pending = self._members.pending
        summary.ms = round((loop.time() - current.started) * 1000)
        summary.trace = self._trace(summary)
        return summary

    def _trace(self, summary: Summary) -> Span:
        ended = time.time_ns()
        began = ended - summary.ms * 1_000_000
        brokers = {broker.address: f"broker {broker.name}" for broker in self._brokers.in_use()}
        requests = self._rpc.requests.take(brokers, began)
        return Span("poll round", began, ended, summary.numbers(), requests, ", ".join(self.clusters))
