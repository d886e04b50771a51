"""How many requests are open at a time, and whose turn is next: none uses up the places of another.

Each broker has places of its own, and so have the name servers and each proxy. Those who wait for a place take turns: a
group with any number of requests has one turn, like every other (round robin).
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from streaming.collect.known_brokers import Place


class FairGate:
    """Places for concurrent requests, given in turns to the subjects that wait."""

    def __init__(self, places: int, of_one: int | None = None) -> None:
        """Give so many places at a time.

        Args:
            places: how many.
            of_one: how many of them one subject may have; None: all.
        """
        self.places = places
        self.of_one = of_one
        self.held = 0
        """Places in use."""
        self.passed = 0
        """Places that were left so far."""
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """By subject, in the order of their turns."""

    @property
    def is_crowded(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    @asynccontextmanager
    async def place(self, subject: str) -> AsyncIterator[None]:
        """Hold a place for a request of a subject."""
        await self._enter(subject)
        try:
            yield
        finally:
            self._leave(subject)

    def let_in(self) -> None:
        """Give free places to those whose turn it is; call it after `places` has grown."""
        while self.held < self.places and (subject := self._next()) is not None:
            queue = self._waiting[subject]
            future = queue.popleft()
            if queue:
                self._waiting.move_to_end(subject)
            else:
                del self._waiting[subject]
            if not future.done():
                self._take(subject)
                future.set_result(None)

    async def _enter(self, subject: str) -> None:
        if self.held < self.places and not self._waiting and self._has_room(subject):
            self._take(subject)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(subject, deque()).append(future)
        self.let_in()  # those who wait may all have their own places
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._leave(subject)
            raise

    def _leave(self, subject: str) -> None:
        self.held -= 1
        self.passed += 1
        self._held[subject] -= 1
        if not self._held[subject]:
            del self._held[subject]
        self.let_in()

    def _take(self, subject: str) -> None:
        self.held += 1
        self._held[subject] += 1

    def _has_room(self, subject: str) -> bool:
        return self.of_one is None or self._held[subject] < self.of_one

    def _next(self) -> str | None:
        return next(filter(self._has_room, self._waiting), None)


class Gates:
    """The places for requests; those of a broker exist while they are used."""

    def __init__(self, parallelism: int) -> None:
        """Open ``parallelism`` requests at a time at each server."""
        self.name_servers = FairGate(parallelism)
        self._parallelism = parallelism
        self._of_broker: WeakValueDictionary[Place, FairGate] = WeakValueDictionary()

    def broker(self, place: Place) -> FairGate:
        """Return the places for requests to a broker."""
        return self._of_broker.setdefault(place, FairGate(self._parallelism))
