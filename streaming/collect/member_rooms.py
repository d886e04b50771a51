"""How many clients are asked at a time through one broker, and which is next.

A client that does not answer keeps a thread of its broker for 10 s (Broker2Client.callClient), of 16 by default
(adminBrokerThreadPoolNums), which the broker's own answers need, too. So few are asked at a time, and more while the
broker still answers at once. Groups take turns. Clients that answered the last time, new ones, and those that did not
answer have places of their own: the last ones delay no other. So have those that gave a large answer (`large_answers`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import Enum

from streaming.base.limits import MEMBERS_ASKED
from streaming.collect.gates import FairGate

_LOOK_SECONDS = 0.5
_FEW = 2
_AGAIN_SECONDS = 10.0
"""A broker that did not answer at once is not asked for more clients before this time."""


class Manner(Enum):
    """How a client has answered."""

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

        Args:
            parallelism: how many requests are open at a time at a broker.
            is_prompt: asks the broker something, and returns whether it has answered at once; None: leave it in peace.
            pause: returns for how many seconds the broker is busy with large answers.
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
                await asyncio.sleep(_AGAIN_SECONDS)


def _of_one(places: int) -> int:
    """Return how many of the places one group may have."""
    return max(_FEW, places // 2)
