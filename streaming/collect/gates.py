"""How many requests are open at a time: whoever does not answer uses up no room of the others.

Each broker has room of its own, and so have the name servers: a broker may list any number of groups, and answer
nothing about them. The clients' room is shared, because a frozen client occupies a thread of its broker; the clients of
one group take half of it at most, and those that did not answer last time share a smaller one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from streaming.collect.known_brokers import Place


class Gates:
    """The rooms for requests; that of a broker or a group exists while it is used."""

    def __init__(self, parallelism: int) -> None:
        """Open ``parallelism`` requests at a time in each room."""
        self.name_servers = asyncio.Semaphore(parallelism)
        self.silent = asyncio.Semaphore(max(1, parallelism // 4))
        """Of the brokers, and of the clients, that did not answer last time."""
        self._parallelism = parallelism
        self._clients = asyncio.Semaphore(parallelism)
        self._of_broker: WeakValueDictionary[Place, asyncio.Semaphore] = WeakValueDictionary()
        self._of_group: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = WeakValueDictionary()

    def broker(self, place: Place) -> asyncio.Semaphore:
        """Return the room for requests to a broker."""
        return self._of_broker.setdefault(place, asyncio.Semaphore(self._parallelism))

    @asynccontextmanager
    async def client(self, group: tuple[str, str]) -> AsyncIterator[None]:
        """Hold a place for a request to a client of a group, which is named by its cluster and its name."""
        of_group = self._of_group.setdefault(group, asyncio.Semaphore(max(1, self._parallelism // 2)))
        async with of_group, self._clients:
            yield
