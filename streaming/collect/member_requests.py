"""Ask each member for its own state (GET_CONSUMER_RUNNING_INFO, 307), which its broker forwards to it.

A frozen client occupies a thread of its broker for 10 s, so it must not delay the others: its answer may come after the
round's end, and until then it gets no other request. Who is asked is a client of a group, by the channel that a broker
lists: the same client id in another group, or at another broker, is asked apart, because anybody may take it. Only a
member that two brokers list is asked at one of them, unless that had no answer.

A client that does not answer keeps a thread of its broker for 10 s (Broker2Client.callClient), of 16 by default
(adminBrokerThreadPoolNums), which the broker's own answers need, too. So few are asked at a time, and more while the
broker still answers at once. Groups take turns. Clients that answered the last time, new ones, and those that did not
answer have places of their own: the last ones delay no other. Those that
gave a large answer have their own, too (`rpc`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import NamedTuple

from rebalance_model.dialect import unreported
from rebalance_model.observe.events import Connection, ConsumerRunningInfo
from streaming.base.limits import MEMBERS_ASKED
from streaming.base.sections.collector import Collector
from streaming.collect.asking import Asker
from streaming.collect.client import RpcFailedError
from streaming.collect.cluster_responses import ListedBroker
from streaming.collect.emitter import SourceClock
from streaming.collect.gates import FairGate
from streaming.collect.known_brokers import Place
from streaming.collect.poll_round import LeftError, PolledGroup, Round
from streaming.collect.polled_events import PolledEvents
from streaming.collect.response_parts import Payload
from streaming.collect.rpc import Rpc
from streaming.collect.stacks import Listeners, Member

_LOOK_SECONDS = 0.5
_FEW = 2
_RETRY_SECONDS = 10.0
"""A broker that did not answer at once is not asked for more clients before this time."""


class Manner(Enum):
    """The manner in which a client has answered."""

    PROMPT = 0
    NEW = 1
    SILENT = 2
    LARGE = 3


class MemberRoom:
    """The places for requests to clients through one broker."""

    def __init__(
        self, parallelism: int, is_prompt: Callable[[], Awaitable[bool | None]], pause: Callable[[], float]
    ) -> None:
        """Begin with half of the places.

        ``is_prompt`` asks the broker something, and returns whether it has answered at once; None: leave it in peace.
        ``pause`` returns for how many seconds the broker is busy with large answers.
        """
        half, quarter = max(1, parallelism // 2), max(1, parallelism // 4)
        self._gates = {
            Manner.PROMPT: FairGate(half, _of_one(half)),
            Manner.NEW: FairGate(half, _of_one(half)),
            Manner.SILENT: FairGate(quarter),
            Manner.LARGE: FairGate(1),
        }
        self._is_prompt = is_prompt
        self._pause = pause
        self._widening: dict[Manner, asyncio.Task[None]] = {}

    def place(self, group: str, manner: Manner) -> AbstractAsyncContextManager[None]:
        """Hold a place for a request to a client of a group; one for a large answer waits until the broker has time."""
        gate = self._gates[manner]
        if manner is Manner.LARGE:
            return self._large(gate, group)
        is_few = gate.in_use >= gate.places and manner is not Manner.SILENT
        if is_few and manner not in self._widening:
            task = self._widening[manner] = asyncio.create_task(self._widen(gate))
            task.add_done_callback(lambda _: self._widening.pop(manner, None))
        return gate.place(group)

    @asynccontextmanager
    async def _large(self, gate: FairGate, group: str) -> AsyncIterator[None]:
        async with gate.place(group):
            while (seconds := self._pause()) > 0:
                await asyncio.sleep(seconds)
            yield

    def note_large(self) -> None:
        """Note that a new client has given a large answer: others may, too, so they get fewer places."""
        gate = self._gates[Manner.NEW]
        gate.places = gate.of_one = min(gate.places, _FEW)

    def cancel(self) -> None:
        """Look at the broker no longer."""
        for task in self._widening.values():
            task.cancel()

    async def _widen(self, gate: FairGate) -> None:
        """Give more places while some wait for one and the broker answers at once; else as few as at the beginning."""
        few = gate.places
        most = MEMBERS_ASKED
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if not gate.is_crowded:
                return
            if gate.places >= most:
                continue
            if (is_prompt := await self._is_prompt()) is None:
                continue
            if is_prompt:
                gate.places = min(most, gate.places + max(1, gate.places // 2))
                gate.of_one = _of_one(gate.places)
                gate.let_in()
            else:
                most = max(few, 3 * gate.places // 4)
                gate.places, gate.of_one = few, _of_one(few)
                await asyncio.sleep(_RETRY_SECONDS)


def _of_one(places: int) -> int:
    """Return how many of the places one group may have."""
    return max(_FEW, places // 2)


_CONSUME_MSG_TIMEOUT = 207  # ResponseCode: the broker waited 10 s for the client
_PROMPT_SECONDS = 1.0


class _Listed(NamedTuple):
    """A member as one broker lists it."""

    member: Member
    place: Place
    channel: str


@dataclass(eq=False)
class MemberRequests:
    """The requests to members, of which some outlast their round."""

    rpc: Rpc
    clock: SourceClock
    settings: Collector
    asker: Asker
    listeners: Listeners
    events: PolledEvents
    _rooms: dict[Place, MemberRoom] = field(default_factory=dict, init=False)
    _manners: dict[_Listed, Manner] = field(default_factory=dict, init=False)
    """The last answer of each; not in it: new."""
    _answered: dict[Member, int] = field(default_factory=dict, init=False)
    """When each has last answered, at whichever broker."""
    _under_way: dict[_Listed, asyncio.Task[None]] = field(default_factory=dict, init=False)

    @property
    def pending(self) -> int:
        """Return how many requests have no answer yet."""
        return len(self._under_way)

    def keep(self, members: Iterable[Member], silent: Collection[Place]) -> None:
        """Forget all but these members, those whose answers are pending, and those that silent brokers have listed."""
        here = {*members, *(one.member for one in self._under_way)}
        self._manners = {
            one: manner for one, manner in self._manners.items() if one.member in here or one.place in silent
        }
        self._answered = {member: at for member, at in self._answered.items() if member in here}
        self.listeners.keep(here)

    def keep_rooms(self, places: Iterable[Place]) -> None:
        """Forget all brokers but these."""
        for place in self._rooms.keys() - set(places):
            self._rooms.pop(place).cancel()

    async def drain(self) -> None:
        """Wait for the members that have not answered yet."""
        await asyncio.gather(*self._under_way.values())

    async def cancel(self) -> None:
        """Cancel the pending requests."""
        for room in self._rooms.values():
            room.cancel()
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def begin(self, current: Round, group: PolledGroup, broker: ListedBroker, connection: Connection) -> None:
        """Request a member's state, unless another broker listed it too or a request is pending."""
        client = connection.client_id
        listed = _Listed(group.member(client), broker.place, connection.channel)
        is_silent = self._manners.get(listed) is Manner.SILENT
        group.members.add(client)
        if client in group.asked or listed in self._under_way:
            return
        if not is_silent:  # else another broker that lists it is asked, too
            group.asked.add(client)
        asking = self.asker.confined(client, self._ask_member, group, broker, listed, connection.language)
        task = asyncio.create_task(asking)
        self._under_way[listed] = task
        current.clients.add(task)
        task.add_done_callback(lambda _: self._under_way.pop(listed))

    async def _ask_member(self, group: PolledGroup, broker: ListedBroker, listed: _Listed, language: str) -> None:
        member, client = listed.member, listed.member[2]
        manner = self._manners.get(listed, Manner.NEW)
        if manner is not Manner.SILENT and self.rpc.is_large(broker, group.name, client):
            manner = Manner.LARGE
        stacks = self.listeners.is_due(member, self.clock.steady())

        async def running_info(seconds: float) -> Payload:
            if not group.is_ours():  # checked last: to wait for room takes time
                raise LeftError
            return await self.rpc.running_info(broker, group.name, client, seconds, stacks=stacks)

        room = self._room(broker)
        try:
            gate, seconds = room.place(group.name, manner), self.settings.client_deadline_ms / 1000
            answer = await self.asker.ask(running_info, gate, seconds=seconds, place=broker.place)
        except LeftError:
            return
        if manner is Manner.NEW and self.rpc.is_large(broker, group.name, client):
            room.note_large()
        error = answer.error
        is_silent = error is not None and (error.is_silence or error.code == _CONSUME_MSG_TIMEOUT)
        self._manners[listed] = Manner.SILENT if is_silent else Manner.PROMPT
        if answer.payload is not None:
            self._answered[member] = answer.answered
            version = answer.payload.get("properties", {}).get("PROP_CLIENT_VERSION", "")
            if "STACKS" not in unreported(language, version):  # of others nothing is worth asking for
                self.listeners.note(member, answer.payload["queues"], answer.answered, asked=stacks)
        elif self._answered.get(member, -1) >= answer.asked:
            return  # it has answered at another broker meanwhile
        self.events.emit_of(group, ConsumerRunningInfo, answer, broker=broker, client_id=client)

    def _room(self, broker: ListedBroker) -> MemberRoom:
        room = self._rooms.get(broker.place)
        if room is None:
            room = self._rooms[broker.place] = MemberRoom(
                self.settings.parallelism, partial(self._is_prompt, broker), partial(self.rpc.pause, broker)
            )
        return room

    async def _is_prompt(self, broker: ListedBroker) -> bool | None:
        """Return whether a broker answers at once by one of those threads; None: large answers keep it busy."""
        if self.rpc.pause(broker) > 0:
            return None
        try:
            await self.rpc.revive_backlog(broker, _PROMPT_SECONDS)
        except RpcFailedError as error:
            return error.code > 0
        return True
