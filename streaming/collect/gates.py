"""How many requests are open at a time, and whose turn is next: none uses up the places of another.

Each broker has places of its own, and so have the name servers and each proxy. Those who wait for a place take turns: a
group with any number of requests has one turn, like every other (round robin).
"""

import asyncio
from collections import Counter, OrderedDict, deque
from contextlib import AbstractAsyncContextManager
from weakref import WeakValueDictionary

from streaming.collect.known_brokers import Place


class FairGate:
    """Turns for concurrent requests, given in turns to the subjects that wait."""

    def __init__(self, places: int, of_one: int | None = None) -> None:
        """Give so many places at a time.

        Args:
            places: how many.
            of_one: how many of them one subject may have; None: all.
        """
        self.places = places
        self.of_one = of_one
        self.in_use = 0
        """Turns in use."""
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """By subject, in the order of their turns."""

    @property
    def is_crowded(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    def place(self, subject: str) -> "Turn":
        """Hold a place for a request of a subject."""
        return Turn(self, subject)

    def enter_at_once(self, subject: str) -> bool:
        """Take a place for a subject if nobody waits for it; return whether it was free."""
        is_free = self.in_use < self.places and not self._waiting and self._has_room(subject)
        if is_free:
            self._take(subject)
        return is_free

    def let_in(self) -> None:
        """Give free places to those whose turn it is; call it after `places` has grown."""
        while self.in_use < self.places and (subject := self._next()) is not None:
            queue = self._waiting[subject]
            future = queue.popleft()
            if queue:
                self._waiting.move_to_end(subject)
            else:
                del self._waiting[subject]
            if not future.done():
                self._take(subject)
                future.set_result(None)

    async def enter(self, subject: str) -> None:
        """Take a place for a subject when it is its turn."""
        if self.enter_at_once(subject):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(subject, deque()).append(future)
        self.let_in()  # those who wait may all have their own places
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.leave(subject)
            raise

    def leave(self, subject: str) -> None:
        """Give a place of a subject back."""
        self.in_use -= 1
        self._held[subject] -= 1
        if not self._held[subject]:
            del self._held[subject]
        if self._waiting:
            self.let_in()

    def _take(self, subject: str) -> None:
        self.in_use += 1
        self._held[subject] += 1

    def _has_room(self, subject: str) -> bool:
        return self.of_one is None or self._held[subject] < self.of_one

    def _next(self) -> str | None:
        return next(filter(self._has_room, self._waiting), None)


class Turn(AbstractAsyncContextManager[None]):
    """The turn of a subject: a place for one request."""

    def __init__(self, gate: FairGate, subject: str) -> None:
        self._gate = gate
        self._subject = subject

    def enter_at_once(self) -> bool:
        """Take the place if it is free; return whether it was. It is given back by `leave`."""
        return self._gate.enter_at_once(self._subject)

    def leave(self) -> None:
        """Give the place back."""
        self._gate.leave(self._subject)

    async def __aenter__(self) -> None:
        await self._gate.enter(self._subject)

    async def __aexit__(self, *_: object) -> None:
        self._gate.leave(self._subject)


class Gates:
    """The places for requests; those of a broker exist while they are used."""

    def __init__(self, parallelism: int) -> None:
        """Open ``parallelism`` requests at a time at each server."""
        self.name_servers = FairGate(parallelism)
        self._parallelism = parallelism
        self._of_broker: WeakValueDictionary[Place, FairGate] = WeakValueDictionary()

    def broker(self, place: Place) -> FairGate:
        """Return the places for requests to a broker."""
        gate = self._of_broker.get(place)
        if gate is None:
            gate = self._of_broker[place] = FairGate(self._parallelism)
        return gate
