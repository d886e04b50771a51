"""Ask each member for its own state (GET_CONSUMER_RUNNING_INFO, 307), which its broker forwards to it.

A frozen client occupies a thread of its broker for 10 s, so it must not delay the others: its answer may come after the
round's end, and until then the client gets no other request. Clients that did not answer last time share a smaller
number of concurrent requests.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TypeAlias

from rebalance_model.observe.events import DEADLINE, ConsumerRunningInfo
from streaming.collect.cluster_responses import ListedBroker
from streaming.collect.gates import Gates
from streaming.collect.poll_round import PolledAnswer, PolledGroup, Request, Round
from streaming.collect.polled_events import PolledEvents
from streaming.collect.response_parts import Payload
from streaming.collect.rpc import Rpc
from streaming.collect.source_clock import SourceClock
from streaming.collect.stacks import Listeners, Member

_CONSUME_MSG_TIMEOUT = 207  # ResponseCode: the broker waited 10 s for the client

AskMember: TypeAlias = Callable[[Request, AbstractAsyncContextManager[None]], Awaitable[PolledAnswer]]
"""Sends a request when there is room, by a client's own deadline."""
Confine: TypeAlias = Callable[[str, Callable[[], Awaitable[None]]], Coroutine[object, object, None]]
"""Awaits a part of the round about a member; whatever it raises ends this part alone."""


class LeftError(Exception):
    """Another collector polls the group now."""


class MemberRequests:
    """The requests to members, of which some outlast their round."""

    def __init__(  # noqa: PLR0913, PLR0917  what a request needs
        self, rpc: Rpc, clock: SourceClock, gates: Gates, listeners: Listeners, ask: AskMember, events: PolledEvents,
        confine: Confine,
    ) -> None:  # fmt: skip
        """Ask the members of one set of name servers.

        Args:
            rpc: sends requests.
            clock: the collector's.
            gates: the room for concurrent requests.
            listeners: whose stacks are asked for.
            ask: sends one.
            events: emits the answers.
            confine: awaits one request with its event.
        """
        self._rpc = rpc
        self._clock = clock
        self._gates = gates
        self._listeners = listeners
        self._ask = ask
        self._events = events
        self._confine = confine
        self._silent: set[str] = set()
        """The clients that did not answer last time."""
        self._last_question: dict[str, asyncio.Task[None]] = {}
        self._under_way: dict[Member, asyncio.Task[None]] = {}

    @property
    def pending(self) -> int:
        """How many requests have no answer yet."""
        return len(self._under_way)

    def keep(self, members: Iterable[Member]) -> None:
        """Forget all but these members, and those whose answers are pending."""
        here = set(members)
        self._silent &= {client for _, _, client in here}
        self._listeners.keep({*here, *self._under_way})

    async def drain(self) -> None:
        """Wait for the members that have not answered yet."""
        await asyncio.gather(*self._under_way.values())

    async def cancel(self) -> None:
        """Cancel the pending requests."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def begin(self, current: Round, group: PolledGroup, broker: ListedBroker, client: str) -> None:
        """Request a member's state, unless another broker listed it too or a request is pending."""
        member = group.member(client)
        if client in group.members:
            return
        group.members.add(client)
        if member in self._under_way:
            return
        before = self._last_question.get(client)  # one client may be in several groups: one request at a time
        asking = self._confine(client, partial(self._ask_member, group, broker, client, before))
        task = asyncio.create_task(asking)
        self._last_question[client] = self._under_way[member] = task
        current.clients.add(task)
        task.add_done_callback(lambda _: self._answered(member, task))

    async def _ask_member(
        self, group: PolledGroup, broker: ListedBroker, client: str, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        gate = self._gates.silent if client in self._silent else self._gates.client((group.cluster, group.name))
        member = group.member(client)
        stacks = self._listeners.is_due(member, self._clock.steady())

        async def running_info(seconds: float) -> Payload:
            if not group.is_ours():  # checked last: to wait for the client's other answer or the gate takes time
                raise LeftError
            return await self._rpc.running_info(broker, group.name, client, seconds, stacks=stacks)

        try:
            answer = await self._ask(running_info, gate)
        except LeftError:
            return
        if answer.error is not None and answer.error.code in (DEADLINE, _CONSUME_MSG_TIMEOUT):
            self._silent.add(client)
        else:
            self._silent.discard(client)
        if answer.payload is not None:
            self._listeners.note(member, answer.payload["queues"], answer.answered, asked=stacks)
        self._events.emit_of(group, ConsumerRunningInfo, answer, broker=broker, client_id=client)

    def _answered(self, member: Member, task: asyncio.Task[None]) -> None:
        del self._under_way[member]
        if self._last_question.get(member[2]) is task:
            del self._last_question[member[2]]
