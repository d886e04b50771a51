"""Limits of open requests, and whose turn is next: no group uses up the places of another.

Each broker has places of its own, and so have the name servers and each proxy. Those who wait for a place take turns: a
group with any number of requests has one turn, like every other (round robin).

A request to a broker that is not answered for `PLACE_SECONDS` gives its place to one that waits, and may still be
answered: so answers that never come take no more places than `LATE_REQUESTS`, and delay the others by that time each.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from contextlib import AbstractAsyncContextManager
from weakref import WeakValueDictionary

from streaming.base.limits import LATE_REQUESTS, PLACE_SECONDS
from streaming.collect.known_brokers import Place


class FairGate:
    """Turns for concurrent requests, given in turns to the subjects that wait."""

    def __init__(self, places: int, of_one: int | None = None, late_max: int = 0) -> None:
        """Give so many places at a time, of which one subject may have ``of_one``; None: all.

        Beside those that have a place, ``late_max`` requests that are late may be open.
        """
        self.places = places
        self.of_one = of_one
        self._late_max = late_max
        self._late: set[Turn] = set()
        self._since: dict[Turn, float] = {}
        """When each turn began, by the loop's clock, if turns may be late; in this order."""
        self._timer: asyncio.TimerHandle | None = None
        self.in_use = 0
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[tuple[Turn, asyncio.Future[None]]]] = OrderedDict()
        """By subject, in the order of their turns."""

    @property
    def is_crowded(self) -> bool:
        """Return whether a request waits for a place."""
        return bool(self._waiting)

    def place(self, subject: str) -> "Turn":
        """Hold a place for a request of a subject."""
        return Turn(self, subject)

    def enter_at_once(self, turn: "Turn") -> bool:
        """Take a place if nobody waits for it; return whether it was free."""
        is_free = self.in_use < self.places and not self._waiting and self._has_room(turn.subject)
        if is_free:
            self._occupy(turn)
        return is_free

    def let_in(self) -> None:
        """Give free places to those whose turn it is; call it after `places` has grown."""
        while self.in_use < self.places and (subject := self._next()) is not None:
            queue = self._waiting[subject]
            turn, future = queue.popleft()
            if queue:
                self._waiting.move_to_end(subject)
            else:
                del self._waiting[subject]
            if not future.done():
                self._occupy(turn)
                future.set_result(None)

    async def enter(self, turn: "Turn") -> None:
        """Take a place when it is the subject's turn."""
        if self.enter_at_once(turn):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(turn.subject, deque()).append((turn, future))
        self.let_in()  # those who wait may all have their own places
        self._watch()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.leave(turn)
            raise

    def leave(self, turn: "Turn") -> None:
        """Give a place back."""
        if turn in self._late:
            self._late.discard(turn)
        else:
            self._release(turn)
        if self._waiting:
            self.let_in()

    def _watch(self) -> None:
        """Look for requests that are late when the first one can be; only while others wait."""
        if self._late_max and self._waiting and self._since and self._timer is None:
            due = next(iter(self._since.values())) + PLACE_SECONDS
            self._timer = asyncio.get_running_loop().call_at(due, self._pass_late)

    def _pass_late(self) -> None:
        self._timer, now = None, asyncio.get_running_loop().time()
        for turn, since in tuple(self._since.items()):
            if now - since < PLACE_SECONDS or len(self._late) >= self._late_max or not self._waiting:
                break
            self._release(turn)
            self._late.add(turn)
            self.let_in()
        if len(self._late) < self._late_max:
            self._watch()

    def _occupy(self, turn: "Turn") -> None:
        self.in_use += 1
        self._held[turn.subject] += 1
        if self._late_max:
            self._since[turn] = asyncio.get_running_loop().time()

    def _release(self, turn: "Turn") -> None:
        self.in_use -= 1
        self._held[turn.subject] -= 1
        if not self._held[turn.subject]:
            del self._held[turn.subject]
        self._since.pop(turn, None)

    def _has_room(self, subject: str) -> bool:
        return self.of_one is None or self._held[subject] < self.of_one

    def _next(self) -> str | None:
        return next(filter(self._has_room, self._waiting), None)


class Turn(AbstractAsyncContextManager[None]):
    """The turn of a subject: a place for one request."""

    def __init__(self, gate: FairGate, subject: str) -> None:
        self.subject = subject
        self._gate = gate

    def enter_at_once(self) -> bool:
        """Take the place if it is free; return whether it was. It is given back by `leave`."""
        return self._gate.enter_at_once(self)

    def leave(self) -> None:
        """Give the place back."""
        self._gate.leave(self)

    async def __aenter__(self) -> None:
        await self._gate.enter(self)

    async def __aexit__(self, *_: object) -> None:
        self._gate.leave(self)


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
            gate = self._of_broker[place] = FairGate(self._parallelism, late_max=LATE_REQUESTS)
        return gate
