"""Poll one broker: its groups (201) and its status (28), then every group in its turn.

Each broker has room of its own, and ends its part of a round by itself. Groups with members are asked about at once,
without waiting for the list; new ones and those without members when it has come, in the time that is left. Of a new
group first the members are requested, of all that are new, so that the others are found soon.

A broker that answers nothing, although it was asked both, is silent. Until it answers anything, it is only probed by
these two requests, with `PROBE_SECONDS` to answer; then it is polled in the same round.

Groups of RocketMQ's own are not polled; its revive group (208) says how far a broker is behind with popped messages.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import TypeAlias

from rebalance_model.entities import SYSTEM_GROUP_PREFIX
from rebalance_model.observe.events import (
    UNREACHABLE,
    BrokerStatus,
    ConsumerConnection,
    ConsumeStats,
    RpcError,
)
from streaming.base.limits import GROUPS_WAITING, PLACE_SECONDS, PROBE_SECONDS, SILENT_BROKER_GROUPS
from streaming.base.sections.collector import Collector
from streaming.collect.asking import Asker
from streaming.collect.client import CONNECT_SECONDS, RpcFailedError
from streaming.collect.client_responses import Backlog
from streaming.collect.cluster_responses import ListedBroker
from streaming.collect.emitter import Emitter
from streaming.collect.gates import Gates
from streaming.collect.group_polls import GroupPolls, Wait
from streaming.collect.known_brokers import KnownBrokers, KnownGroups, Place
from streaming.collect.poll_round import PolledAnswer, PolledGroup, Request, Round
from streaming.collect.polled_events import PolledEvents, RoundWarnings
from streaming.collect.proxies import Proxies
from streaming.collect.response_parts import Payload
from streaming.collect.rpc import Rpc


async def revive_backlog(
    rpc: Rpc, broker: ListedBroker, gate: AbstractAsyncContextManager[None] | None
) -> Backlog | None:
    """Return the records of POPs that the broker has not checked yet; None: it does not say, or has none at all.

    Not every user may read the offsets of this group, and the broker's status does not wait for it for long: whatever
    fails makes only this unknown. Without a gate the broker did not answer the last time, and is not asked.
    """
    if gate is None:
        return None
    try:
        async with asyncio.timeout(CONNECT_SECONDS), gate:
            return await rpc.revive_backlog(broker, CONNECT_SECONDS)
    except (TimeoutError, RpcFailedError):
        return None


_NAMES = frozenset(
    {
        "DEFAULT_CONSUMER",
        "TOOLS_CONSUMER",
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
    }
)
"""Groups of RocketMQ's own (MixAll.isSysConsumerGroupPullMessage)."""


def is_system_group(name: str) -> bool:
    """Return whether a group is one of RocketMQ's own."""
    return name.startswith(SYSTEM_GROUP_PREFIX) or name in _NAMES


AskGroup: TypeAlias = Callable[[Round, PolledGroup, ListedBroker, Wait], Awaitable[None]]


def with_backlog(status: PolledAnswer, backlog: Backlog | None) -> PolledAnswer:
    """Return a broker's status with the records of POPs that it has not checked, and how late it is with them.

    The broker stores such a record when it is due, and both times are by its clock.
    """
    if backlog is None:
        return status
    now = (status.payload or {}).get("now", 0)
    late = max(0, now - backlog.consumed_stored_at) if now and backlog.consumed_stored_at else None
    return status.with_fields(revive_backlog=backlog.messages, revive_late=late)


@dataclass(eq=False)
class BrokerPolls:
    """Polls brokers, one at a time each."""

    rpc: Rpc
    emitter: Emitter
    settings: Collector
    asker: Asker
    gates: Gates
    brokers: KnownBrokers
    groups: KnownGroups
    polls: GroupPolls
    proxies: Proxies
    events: PolledEvents
    warnings: RoundWarnings
    _under_way: set[tuple[Place, str]] = field(default_factory=set, init=False)
    """The parts of a former round that have not ended: a broker's own requests (an empty name), or those about a
    group."""

    async def poll(self, current: Round, place: Place, *, is_probe: bool) -> None:
        """Poll a broker, or probe it first; return when it was heard, or has answered nothing in time."""
        broker = self.brokers.replica(place)
        if broker is None or (place, "") in self._under_way:
            return
        self._under_way.add((place, ""))
        self.brokers.begin(place)
        try:
            await self._poll(current, broker, is_probe=is_probe)
        finally:
            self._under_way.discard((place, ""))

    async def _poll(self, current: Round, broker: ListedBroker, *, is_probe: bool) -> None:
        place, tasks, confined = broker.place, current.tasks, self.asker.confined
        seconds = min(PROBE_SECONDS, current.seconds) if is_probe else current.seconds
        listing = tasks.create_task(self._ask_list(current, broker, seconds))
        ask_status = partial(self._ask_status, current, place, seconds, is_probe=is_probe)
        status = tasks.create_task(confined(broker.name, ask_status))
        if place in self.brokers.others:
            await asyncio.wait([status])  # it says which of two brokers gives the answers that follow
        begun: set[str] = set()
        first = [] if is_probe else self._in_turn(current, place)[0]
        feeding = self._ask_first(current, broker, first, begun)
        answer = await listing
        if answer.payload is None:
            self.events.tally.errors += 1
            await asyncio.wait([status])  # any answer shows that it is alive
        is_heard = self.brokers.is_heard(place)
        is_news = not is_heard and self.brokers.note_silent(place)
        if answer.error is not None and (is_heard or is_news):
            say = self.warnings.say if is_news else self.warnings.warn
            say("a broker does not return its groups", broker=broker.name, error=answer.error.remark)
        names = [name for part in self._in_turn(current, place) for name in part]
        if is_heard:
            known = set(first)
            others = [name for name in names if name not in known]
            self.proxies.begin(current, broker.cluster, others)
            tasks.create_task(confined(broker.name, self._ask_others, current, broker, others, feeding))
        else:
            for task in feeding:
                task.cancel()
            self.proxies.begin(current, broker.cluster, names)
            await self._report(current, broker, [name for name in names if name not in begun], answer)

    def _in_turn(self, current: Round, place: Place) -> tuple[list[str], list[str]]:
        """Return the known groups of a broker that are polled here, in their turns: those with members, and others."""
        shared = (name for name in self.groups.of(place) if current.share(place[0], name))
        return self.groups.in_turn(place, shared)

    def _ask_first(
        self, current: Round, broker: ListedBroker, names: Sequence[str], begun: set[str]
    ) -> list[asyncio.Task[None]]:
        """Begin to ask about groups with members; those with large answers are asked about one at a time."""
        self.proxies.begin(current, broker.cluster, names)
        large = {name for name in names if self.rpc.is_large(broker, name)}
        others = [name for name in names if name not in large]
        works = [partial(self._ask_all, current, broker, others, begun, 2 * self.settings.parallelism, self.polls.ask)]
        if large:
            works.append(
                partial(
                    self._ask_all,
                    current,
                    broker,
                    [name for name in names if name in large],
                    begun,
                    1,
                    self._ask_slowly,
                )
            )
        return [current.tasks.create_task(self.asker.confined(broker.name, work)) for work in works]

    async def _ask_slowly(self, current: Round, group: PolledGroup, broker: ListedBroker, wait: Wait) -> None:
        while (seconds := self.rpc.pause(broker)) > 0 and current.left > 0:
            await asyncio.sleep(min(seconds, current.left))
        await self.polls.ask(current, group, broker, wait)

    async def _ask_others(
        self, current: Round, broker: ListedBroker, names: Sequence[str], first: Sequence[asyncio.Task[None]]
    ) -> None:
        """Ask about new groups and those without members; of the new ones first all members are requested.

        Those with large answers, or answers that do not end, come after all others and those that were asked first.
        """
        later: list[str] = []

        async def ask(current: Round, group: PolledGroup, broker: ListedBroker, wait: Wait) -> None:
            if not self.groups.is_new(broker.place, group.name):
                await self.polls.ask(current, group, broker, wait)
            elif members := await self.polls.ask_members(current, group, broker, wait):
                await self.polls.ask_rest(current, group, broker, members, wait)
            else:
                later.append(group.name)

        async def ask_rest(current: Round, group: PolledGroup, broker: ListedBroker, wait: Wait) -> None:
            await self.polls.ask_rest(current, group, broker, [], wait)

        places = self.settings.parallelism
        large = [name for name in names if self.rpc.is_large(broker, name)]
        kept = set(large)
        await self._ask_all(current, broker, [name for name in names if name not in kept], set(), places, ask)
        await self._ask_all(current, broker, later, set(), places, ask_rest)
        if large:
            await asyncio.wait(first)
            await self._ask_all(current, broker, large, set(), 1, ask)

    async def _ask_all(
        self, current: Round, broker: ListedBroker, names: Sequence[str], begun: set[str], places: int, ask: AskGroup
    ) -> None:
        """Ask about groups, as many at a time as there are places, until all had their turn or the time is over."""
        room, under_way = asyncio.Semaphore(places), set[asyncio.Task[None]]()
        for number, name in enumerate(names):
            if len(under_way) >= GROUPS_WAITING:
                await asyncio.wait(under_way, timeout=max(0.0, current.left), return_when=asyncio.FIRST_COMPLETED)
            if not await current.has_time(room):
                self.events.tally.late += len(names) - number
                return
            begun.add(name)
            self.groups.note_turn(broker.place, name)
            leave = _once(room.release)  # it leaves the room when it waits for a route, is late, or has ended
            asking = self.asker.confined(name, self._ask_group, current, broker, name, ask, leave)
            # Not in a task group of its own: that is cancelled later than the round, and its tasks would begin others.
            task = current.tasks.create_task(asking)
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            task.add_done_callback(leave)
            if places > 1:
                asyncio.get_running_loop().call_later(PLACE_SECONDS, leave)
        if under_way:
            await asyncio.wait(under_way)

    async def _ask_group(self, current: Round, broker: ListedBroker, name: str, ask: AskGroup, wait: Wait) -> None:
        key = broker.place, name
        if key in self._under_way:
            return
        self._under_way.add(key)
        try:
            await ask(current, current.group(broker.cluster, name), broker, wait)
        finally:
            self._under_way.discard(key)

    async def _report(self, current: Round, broker: ListedBroker, names: Sequence[str], answer: PolledAnswer) -> None:
        """Emit the silence of a broker as that of its groups."""
        self.events.tally.silent += 1
        self.events.tally.late += max(0, len(names) - SILENT_BROKER_GROUPS)
        for name in names[:SILENT_BROKER_GROUPS]:
            await asyncio.sleep(0)
            self.groups.note_turn(broker.place, name)
            group = current.group(broker.cluster, name)
            for kind in (ConsumerConnection, ConsumeStats):
                self.events.emit_of(group, kind, answer, broker=broker)

    async def _ask_list(self, current: Round, broker: ListedBroker, seconds: float) -> PolledAnswer:
        answer = await self._ask(partial(self._groups_of, broker), current, broker.place, seconds)
        if answer.payload is not None:
            patterns = self.settings.groups
            listed = {
                name: is_fifo is True
                for name, is_fifo in answer.payload.items()
                if not is_system_group(name)
                and (not patterns or any(fnmatchcase(name, pattern) for pattern in patterns))
            }
            self.groups.update(broker.place, listed, self.emitter.clock.steady())
        return answer

    async def _groups_of(self, broker: ListedBroker, seconds: float) -> Payload:
        return {**await self.rpc.groups(broker, seconds)}

    async def _ask_status(self, current: Round, place: Place, seconds: float, *, is_probe: bool) -> None:
        cluster, name = place
        master = self.brokers.masters.get(place)
        if master is None:
            now = self.emitter.clock.steady()
            missing = RpcError(code=UNREACHABLE, remark=f"the name server lists no master of {name}")
            listed = self.brokers.is_listed(place)
            self.events.emit(
                BrokerStatus, PolledAnswer(now, now, None, missing), cluster=cluster, broker=name, listed=listed
            )
            return
        ask, steps = partial(self.rpc.broker_status, master, self.emitter.source_id), self.emitter.clock.steps
        gate = None if is_probe else self.gates.broker(place).place("")
        backlog = asyncio.create_task(revive_backlog(self.rpc, master, gate))
        answer = with_backlog(await self._ask(ask, current, place, seconds), await backlog)
        await self._ask_other(current, place, answer)
        self.emitter.follow_clock()
        if answer.payload is not None and self.emitter.clock.steps != steps:
            del answer.payload["asked"]  # by the clock as it was set before
        listed = self.brokers.is_listed(place) if answer.payload is None else None
        self.events.emit_as_set(
            BrokerStatus, answer, cluster=cluster, broker=name, broker_id=master.broker_id, listed=listed
        )

    async def _ask_other(self, current: Round, place: Place, answer: PolledAnswer) -> None:
        """Report the broker at the former address of a name, before the one that has it now, if both answer.

        Brokers that share a name register every 30 s, the one soon after the other perhaps: then the name servers show
        the second one's address in almost every round, as after a move of the broker.
        """
        other = self.brokers.others.get(place)
        if other is None or answer.payload is None:
            return
        ask, gate = partial(self.rpc.broker_status, other, self.emitter.source_id), nullcontext()
        of_other = await self.asker.ask(ask, gate, deadline=current.deadline, seconds=PROBE_SECONDS)
        if of_other.payload is None:
            self.brokers.note_other(place, answers=False)
            return
        if of_other.payload["boot_time"] == answer.payload["boot_time"]:
            self.brokers.drop_other(place)  # one broker of two addresses
            return
        self.brokers.note_other(place, answers=True)
        cluster, name = place
        self.events.emit_as_set(BrokerStatus, of_other, cluster=cluster, broker=name, broker_id=other.broker_id)

    async def _ask(self, ask: Request, current: Round, place: Place, seconds: float) -> PolledAnswer:
        gate = self.gates.broker(place).place("")
        return await self.asker.ask(ask, gate, deadline=current.deadline, seconds=seconds, place=place)


def _once(work: Callable[[], None]) -> Callable[..., None]:
    """Return a function that does a work when it is first called."""
    left = [work]

    def do(*_: object) -> None:
        if left:
            left.pop()()

    return do
